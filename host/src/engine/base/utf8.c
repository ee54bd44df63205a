/* utf8.c - code points in strings. */
#include "base/utf8.h"

/* A byte that begins none: above all code points (0x10ffff). */
#define STRAY 0x110000u

uint32_t keel_utf8_get(const char *at, const char *end, uint32_t *out_bytes) {
  const uint8_t *byte = (const uint8_t *)at;
  uint32_t first = byte[0], more = first < 0xc2   ? 0
                                   : first < 0xe0 ? 1
                                   : first < 0xf0 ? 2
                                   : first < 0xf5 ? 3
                                                  : 0;
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  *out_bytes = 1;
  if (first < 0x80) return first;
  if (!more || (uint64_t)(end - at) <= more) return STRAY + first;
  uint32_t point = first & (0x3fu >> more);
  for (uint32_t i = 1; i <= more; i++) {
    if ((byte[i] & 0xc0) != 0x80) return STRAY + first;
    point = point << 6 | (byte[i] & 0x3f);
  }
  if (point < least[more] || point >= STRAY ||
      (point >= 0xd800 && point < 0xe000))
    return STRAY + first;
  *out_bytes = more + 1;
  return point;
}

uint32_t keel_utf8_put(uint32_t point, char *to) {
  uint8_t *byte = (uint8_t *)to;
  if (point >= STRAY || point < 0x80) {
    byte[0] = (uint8_t)(point >= STRAY ? point - STRAY : point);
    return 1;
  }
  uint32_t more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  byte[0] = (uint8_t)((0xf0u << (3 - more)) | point >> 6 * more);
  for (uint32_t i = 1; i <= more; i++)
    byte[i] = (uint8_t)(0x80 | (point >> 6 * (more - i) & 0x3f));
  return more + 1;
}
