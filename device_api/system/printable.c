/* printable.c - texts fit for a terminal and for JSON. */
#include "system/printable.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The bytes that the first one of a character asks for; 0: no character begins so. */
static size_t size_by(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
}

size_t keel_utf8_size(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  size_t size = size_by(at[0]);
  for (size_t i = 1; i < size; i++) /* ends at a text's end, too */
    if ((at[i] & 0xc0) != 0x80) return 0;
  if (size < 2) return size;
  bool overlong =
      (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
  bool surrogate = at[0] == 0xed && at[1] > 0x9f;
  bool beyond = at[0] == 0xf4 && at[1] > 0x8f;
  bool no_character = at[0] == 0xef && at[1] == 0xbf && at[2] > 0xbd;
  return overlong || surrogate || beyond || no_character ? 0 : size;
}

/* The code point of a character of so many bytes. */
static uint32_t point_of(const char *text, size_t size) {
  const unsigned char *at = (const unsigned char *)text;
  if (size == 1) return at[0];
  uint32_t point = at[0] & (0x7fu >> size);
  for (size_t i = 1; i < size; i++)
    point = point << 6 | (at[i] & 0x3fu);
  return point;
}

/* C0, DEL, C1; U+061C, U+200E..F, U+202A..E and U+2066..9 turn the direction of what follows;
 * U+2028 and U+2029 end lines. */
static bool is_control(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c ||
         point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

char *keel_make_printable(char *text, const char *kept) {
  for (char *at = text; *at;) {
    size_t size = keel_utf8_size(at);
    bool stays = size && (!is_control(point_of(at, size)) || strchr(kept, *at));
    if (!size) size = 1;
    if (!stays) memset(at, '?', size);
    at += size;
  }
  return text;
}

void keel_write_json(FILE *file, const char *text) {
  fputc('"', file);
  while (text && *text) {
    size_t size = keel_utf8_size(text);
    uint32_t point = size ? point_of(text, size) : 0xfffd;
    if (point == '"' || point == '\\')
      fprintf(file, "\\%c", (char)point);
    else if (point == '\n')
      fputs("\\n", file);
    else if (!size || is_control(point)) /* no control is above U+FFFF */
      fprintf(file, "\\u%04x", (unsigned)point);
    else
      fwrite(text, 1, size, file);
    text += size ? size : 1;
  }
  fputc('"', file);
}
