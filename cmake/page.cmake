# butterfly_page(RESULT FALLBACK): sets RESULT to the C++ file that carries the page of web/, which is made while building
# where node and npm are there, or to FALLBACK.
set(BUTTERFLY_PAGE AUTO CACHE STRING "The web page in the program: AUTO (where npm can make it), ON (or the build fails), OFF")

function(butterfly_page result fallback)
  set(${result} ${fallback} PARENT_SCOPE)
  if(NOT BUTTERFLY_PAGE)
    return()
  endif()
  find_program(NODE node)
  find_program(NPM npm)
  set(version v0)
  if(NODE AND NPM)
    execute_process(COMMAND ${NODE} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT version MATCHES "^v([0-9]+)" OR CMAKE_MATCH_1 LESS 18)
    if(BUTTERFLY_PAGE STREQUAL "AUTO")
      message(STATUS "No web page in the program: it needs npm and node 18 or later (./scripts/deps.sh page)")
      return()
    endif()
    message(FATAL_ERROR "BUTTERFLY_PAGE is ON, but node 18 or later and npm are not here: ./scripts/deps.sh page")
  endif()
  set(source ${PROJECT_SOURCE_DIR}/web)
  set(output ${CMAKE_BINARY_DIR}/web/page_files.cc)
  file(GLOB_RECURSE inputs CONFIGURE_DEPENDS ${source}/src/*)
  add_custom_command(OUTPUT ${output} VERBATIM
    DEPENDS ${inputs} ${source}/index.html ${source}/vite.config.js ${source}/package-lock.json ${source}/embed.mjs ${source}/make.mjs
    COMMAND ${NODE} ${source}/make.mjs ${source} ${CMAKE_BINARY_DIR}/web ${BUTTERFLY_PAGE}
    COMMENT "Making the web page")
  set(${result} ${output} PARENT_SCOPE)
endfunction()
