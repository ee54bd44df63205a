/* utf8.c - texts of a plugin, which may be of any bytes, in reports that may not. */
#include "runner/results.h"

/* Bytes that the first one of a character asks for; 0: it can be no first one. */
static size_t size_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

size_t kc_utf8_size(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  size_t size = size_by(at[0]);
  for (size_t i = 1; i < size; i++) /* ends at a text's end, too */
    if ((at[i] & 0xc0) != 0x80) return 0;
  bool overlong =
      (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
  bool surrogate = at[0] == 0xed && at[1] > 0x9f;
  bool beyond = at[0] == 0xf4 && at[1] > 0x8f;
  bool no_character = at[0] == 0xef && at[1] == 0xbf && at[2] > 0xbd;
  return size > 1 && (overlong || surrogate || beyond || no_character) ? 0
                                                                       : size;
}
