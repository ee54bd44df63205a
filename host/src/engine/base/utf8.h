/* utf8.h - code points in strings. */
#ifndef KEEL_UTF8_H
#define KEEL_UTF8_H

#include <stdint.h>

/* The code point at a place, and its bytes; a byte that is no UTF-8 stands for itself, above all
 * code points. Nothing is read at `end` and behind. */
uint32_t keel_utf8_get(const char *at, const char *end, uint32_t *out_bytes);

/* Writes one in up to 4 bytes; how many. */
uint32_t keel_utf8_put(uint32_t point, char *to);

#endif /* KEEL_UTF8_H */
