# Writes one source file that holds several: cmake -DOUTPUT=FILE -DSOURCES=A,B,... -P join_sources.cmake
#
# Private names of tests are alike everywhere, so each file's unnamed namespace gets a name of its own here.
string(REPLACE "," ";" sources "${SOURCES}")
get_filename_component(unit ${OUTPUT} NAME_WE)
set(joined "")
set(number 0)
foreach(source IN LISTS sources)
  file(READ ${source} text)
  string(REPLACE "\nnamespace {\n" "\nnamespace ${unit}_${number} {\n" text "${text}")
  string(APPEND joined "#line 1 \"${source}\"\n${text}\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "${joined}")
