# Writes OUT with the git revision of SOURCE_DIR. Run at build time, only after HEAD moved.
execute_process(
  COMMAND git -c safe.directory=* -C ${SOURCE_DIR} rev-parse --short HEAD
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(revision unknown)
endif()
file(WRITE ${OUT} "#pragma once\ninline constexpr const char* kGitRevision = \"${revision}\";\n")
