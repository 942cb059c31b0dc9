# The layers of src/: one target a folder, and an include path that holds only the folders below it.

find_package(Threads REQUIRED)

add_library(symccl_options INTERFACE)
target_compile_options(symccl_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off)
if(SYMCCL_WERROR)
  target_compile_options(symccl_options INTERFACE -Werror)
endif()
if(SYMCCL_SANITIZE)
  # GCC warns about uninitialised values in its own headers, once they are instrumented.
  target_compile_options(symccl_options INTERFACE -fsanitize=${SYMCCL_SANITIZE} -fno-omit-frame-pointer
                                                  -Wno-maybe-uninitialized)
  target_link_options(symccl_options INTERFACE -fsanitize=${SYMCCL_SANITIZE})
  if(SYMCCL_SANITIZE MATCHES "thread")
    target_compile_definitions(symccl_options INTERFACE SYMCCL_THREAD_SANITIZER=1)
    target_compile_options(symccl_options INTERFACE -Wno-tsan)
  endif()
endif()
target_link_libraries(symccl_options INTERFACE Threads::Threads)

# The headers of all layers, for tests. It brings no code: link symccl_static or single layers for that.
add_library(symccl_internal INTERFACE)
target_include_directories(symccl_internal INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(symccl_internal INTERFACE symccl_options)

# symccl_layer(<name> SOURCES <file>... LINKS <lower layer>...)
# The headers of src/<name>/ are included as "<name>/x.hpp", by this layer and by those that link to it. The path leads
# through a folder of links that holds this layer alone, so including a layer that is not linked does not compile.
function(symccl_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;LINKS" ${ARGN})
  set(view ${CMAKE_BINARY_DIR}/layers/${name})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${name} SYMBOLIC)
  add_library(symccl_${name} OBJECT ${LAYER_SOURCES})
  target_include_directories(symccl_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include ${view})
  target_link_libraries(symccl_${name} PUBLIC symccl_options)
  foreach(lower IN LISTS LAYER_LINKS)
    if(NOT TARGET symccl_${lower})
      message(FATAL_ERROR "The layer '${name}' links to '${lower}', which is not below it: see src/CMakeLists.txt")
    endif()
    target_link_libraries(symccl_${name} PUBLIC symccl_${lower})
  endforeach()
  target_include_directories(symccl_internal INTERFACE ${view})
  set_property(GLOBAL APPEND PROPERTY SYMCCL_LAYERS symccl_${name})
endfunction()
