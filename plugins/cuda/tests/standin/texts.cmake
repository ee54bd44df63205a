# texts.cmake - what stands before and behind a kernel's source, as texts of C.
# usage: cmake -DOUT=FILE -DFOLDER=DIR -P texts.cmake
set(text "/* made by cuda/tests/standin/texts.cmake */\n")
foreach(name prelude runner)
  file(READ ${FOLDER}/${name}.h hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "static const char standin_${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${text}")
