# Writes OUTPUT: a table of the files NAMES (comma-separated, below ROOT) as
# raw string literals, declared in jit/source/embedded_templates.h.
string(REPLACE "," ";" names "${NAMES}")
set(text "#include \"jit/source/embedded_templates.h\"\n\nnamespace gemmd::jit {\n\n")
string(APPEND text "const EmbeddedFile kEmbeddedTemplates[] = {\n")
foreach(name ${names})
  file(READ ${ROOT}/${name} content)
  # Compilers limit the length of one literal; pieces are concatenated.
  string(LENGTH "${content}" length)
  string(APPEND text "{\"${name}\",\n")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 12000 piece)
    string(APPEND text "R\"~~~(${piece})~~~\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  string(APPEND text "},\n")
endforeach()
string(APPEND text "};\n\nconst int kEmbeddedTemplateCount =\n"
       "    sizeof(kEmbeddedTemplates) / sizeof(kEmbeddedTemplates[0]);\n\n"
       "}  // namespace gemmd::jit\n")
file(WRITE ${OUTPUT} "${text}")
