# embed.cmake - the texts of kernels/ and dialects/ as a C file.
# usage: cmake -DOUT=FILE -DFOLDER=DIR -P embed.cmake
file(GLOB files ${FOLDER}/kernels/*.k ${FOLDER}/dialects/*.cl
  ${FOLDER}/dialects/*.cu ${FOLDER}/dialects/*.glsl ${FOLDER}/dialects/*.h)
set(texts "/* made by families/embed.cmake */\n#include <string.h>\n\n#include \"families/dialect.h\"\n\n")
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND texts "static const char text_${name}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", text_${name}},\n")
endforeach()
string(APPEND texts "static const struct {\n  const char *name, *text;\n} texts[] = {\n${rows}};\n\nconst char *fam_text(const char *name) {\n  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)\n    if (!strcmp(texts[i].name, name)) return texts[i].text;\n  return NULL;\n}\n")
file(WRITE ${OUT} "${texts}")
