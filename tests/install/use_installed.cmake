# Installs `build` below `scratch`, then builds and runs program/ against that, first by CMake, then by pkg-config.
set(prefix ${scratch}/prefix)
set(program ${CMAKE_CURRENT_LIST_DIR}/program)
file(REMOVE_RECURSE ${scratch})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

foreach(component library development)
  run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix} --component ${component})
endforeach()

run(${CMAKE_COMMAND} -S ${program} -B ${scratch}/by_cmake -G ${generator}
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${scratch}/by_cmake)
run(${scratch}/by_cmake/program)

find_program(PKG_CONFIG NAMES pkg-config pkgconf)
if(NOT PKG_CONFIG)
  message(STATUS "pkg-config is not installed: its file is not tried")
  return()
endif()
file(GLOB_RECURSE description ${prefix}/*/symccl.pc)
cmake_path(GET description PARENT_PATH folder)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${PKG_CONFIG} --cflags --libs symccl
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} ${PKG_CONFIG} --variable=libdir symccl
                OUTPUT_VARIABLE libraries OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
run(${compiler} -std=c++20 ${program}/main.cpp ${flags} -o ${scratch}/by_pkg_config)
run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${scratch}/by_pkg_config)
