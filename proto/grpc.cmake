# gRPC, Protobuf and abseil: the targets GRPC, protobuf::libprotobuf, absl::*.
#
# Shared, they are 62 libraries, and loading them takes a program that starts
# longer than all that it does itself. So they are linked statically where their
# archives are, but for sanitizers, which tell what is theirs by the library's
# name.
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET GLOBAL grpc++)
# What `pkg-config --static grpc++` names beside abseil.
set(archives)
foreach(name grpc++ grpc gpr address_sorting upb re2 cares)
  # Ubuntu's c-ares has the longer name.
  find_library(GRPC_ARCHIVE_${name} NAMES lib${name}.a lib${name}_static.a)
  list(APPEND archives ${GRPC_ARCHIVE_${name}})
endforeach()
if(GEMMD_SANITIZE OR "${archives}" MATCHES "NOTFOUND")
  message(STATUS "gRPC, Protobuf and abseil are shared libraries")
  find_package(absl REQUIRED)
  find_package(Protobuf REQUIRED)
  add_library(GRPC ALIAS PkgConfig::GRPC)
  return()
endif()

set(Protobuf_USE_STATIC_LIBS ON)
find_package(Protobuf REQUIRED)

# Debian's targets name the shared libraries; the archives lie beside them.
find_package(absl REQUIRED)
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
list(FILTER imported INCLUDE REGEX "^absl::")
foreach(target IN LISTS imported)
  get_target_property(shared ${target} IMPORTED_LOCATION_NONE)
  string(REGEX REPLACE "[.]so[.0-9]*$" ".a" archive "${shared}")
  if(EXISTS "${archive}")
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE ${archive})
  endif()
endforeach()

# The archives need each other.
find_package(ZLIB REQUIRED)
list(JOIN archives "," archives)
add_library(GRPC INTERFACE)
target_link_libraries(GRPC INTERFACE
  "$<LINK_GROUP:RESCAN,${archives}>" OpenSSL::SSL OpenSSL::Crypto ZLIB::ZLIB
  ${imported})

# Whoever hands the programs on owes their licences too.
foreach(package libgrpc-dev libprotobuf-dev libabsl-dev libre2-dev libc-ares-dev)
  set(license /usr/share/doc/${package}/copyright)
  if(EXISTS ${license})
    install(FILES ${license} DESTINATION share/doc/gemmd
            RENAME ${package}-license.txt)
  endif()
endforeach()
