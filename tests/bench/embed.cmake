# embed_text(VARIABLE file): appends to VARIABLE the raw string literal of a
# file, and reconfigures when the file changes.
function(embed_text variable file)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} content)
  # Expanded into one source, where the directive means nothing.
  string(REPLACE "#pragma once" "" content "${content}")
  set(${variable} "R\"~~~(${content})~~~\"" PARENT_SCOPE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${CMAKE_CURRENT_SOURCE_DIR}/${file})
endfunction()
