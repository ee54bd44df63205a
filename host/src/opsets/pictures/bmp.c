/* bmp.c - BMP files: 1, 4 and 8 bits with a palette, 16, 24 and 32 bits; not compressed. */
#include "opsets/pictures/decoders.h"

enum { PLAIN = 0, BY_MASKS = 3 };

typedef struct bmp {
  const uint8_t *data;
  uint64_t size;
  uint64_t pixels, row;    /* where they begin; bytes of a row */
  uint64_t palette, entry; /* where it begins; bytes of a colour */
  uint32_t bits, colours;
  uint32_t masks[3]; /* of 16 and 32 bits */
  bool down;         /* the first row is the top one */
} bmp;

static uint32_t bmp_get(const bmp *b, uint64_t at, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes && at + i < b->size; i++)
    value |= (uint32_t)b->data[at + i] << 8 * i;
  return value;
}

/* The bits of a mask, spread over a byte. */
static uint8_t part_of(uint32_t value, uint32_t mask) {
  if (!mask) return 0;
  int shift = __builtin_ctz(mask);
  uint64_t most = mask >> shift, part = (value & mask) >> shift;
  return (uint8_t)((part * 255 + most / 2) / most);
}

/* A pixel's red, green and blue: three bytes, last colour first; by masks; or an index into the
 * palette, in whose byte the first pixel has the highest bits. */
static void read_pixel(const bmp *b, uint64_t row, uint64_t x, uint8_t *out) {
  uint64_t at = row + x * b->bits / 8;
  uint32_t value = bmp_get(b, at, b->bits < 8 ? 1 : b->bits / 8);
  if (b->bits == 24) {
    for (int i = 0; i < 3; i++)
      out[i] = (uint8_t)(value >> (16 - 8 * i));
  } else if (b->bits > 8) {
    for (int i = 0; i < 3; i++)
      out[i] = part_of(value, b->masks[i]);
  } else {
    uint32_t shift = 8 - b->bits - (uint32_t)(x * b->bits % 8);
    uint32_t index = value >> shift & ((1u << b->bits) - 1);
    for (uint32_t i = 0; index < b->colours && i < 3; i++)
      out[i] = b->data[b->palette + index * b->entry + 2 - i];
  }
}

/* The masks, which stand behind the header, or are those of 5 or 8 bits a colour. */
static void read_masks(bmp *b, uint32_t compression) {
  for (uint32_t i = 0; i < 3; i++)
    b->masks[i] = compression == BY_MASKS ? bmp_get(b, 54 + 4 * i, 4)
                  : b->bits == 16         ? 0x1Fu << (10 - 5 * i)
                                          : 0xFFu << (16 - 8 * i);
}

static keel_status read_palette(bmp *b, uint64_t header, uint32_t colours) {
  uint32_t all = 1u << b->bits;
  b->palette = 14 + header;
  b->colours = colours && colours < all ? colours : all;
  return b->palette + b->colours * b->entry <= b->size
             ? KD_OK
             : keel_picture_broken("BMP", "its palette ends behind its end");
}

static keel_status read_header(bmp *b, int64_t *width, int64_t *height) {
  uint32_t header = bmp_get(b, 14, 4), compression = 0, colours = 0;
  bool old = header == 12; /* OS/2's: sizes of 16 bits */
  if (!old && header < 40)
    return keel_picture_broken("BMP", "its header has no known length");
  if (b->size < 14 + (uint64_t)header)
    return keel_picture_broken("BMP", "it ends in its header");
  b->pixels = bmp_get(b, 10, 4);
  *width = old ? (int64_t)bmp_get(b, 18, 2) : (int32_t)bmp_get(b, 18, 4);
  *height = old ? (int64_t)bmp_get(b, 20, 2) : (int32_t)bmp_get(b, 22, 4);
  b->bits = bmp_get(b, old ? 24 : 28, 2);
  b->entry = old ? 3 : 4;
  if (!old) {
    compression = bmp_get(b, 30, 4);
    colours = bmp_get(b, 46, 4);
  }
  b->down = *height < 0;
  *height = b->down ? -*height : *height;
  bool wide = b->bits == 16 || b->bits == 32;
  if (compression != PLAIN && !(compression == BY_MASKS && wide))
    return keel_fail(KD_UNIMPLEMENTED,
                     "a BMP file with compression %u; store it without",
                     (unsigned)compression);
  if (b->bits == 1 || b->bits == 4 || b->bits == 8)
    return read_palette(b, header, colours);
  if (!wide && b->bits != 24)
    return keel_picture_broken("BMP", "its pixels have no known size");
  read_masks(b, compression);
  return KD_OK;
}

keel_status keel_decode_bmp(const uint8_t *data, uint64_t size,
                            keel_picture *image) {
  bmp b = {.data = data, .size = size};
  int64_t width = 0, height = 0;
  KEEL_TRY(read_header(&b, &width, &height));
  KEEL_TRY(keel_picture_make(image, width, height, 0));
  b.row = ((uint64_t)width * b.bits + 31) / 32 * 4;
  if (b.pixels > size || b.row * (uint64_t)height > size - b.pixels)
    return keel_picture_broken("BMP", "it ends before its last pixel");
  for (int64_t y = 0; y < height; y++) {
    KEEL_TRY(keel_picture_go_on(image, width));
    uint64_t row = b.pixels + b.row * (uint64_t)(b.down ? y : height - 1 - y);
    for (int64_t x = 0; x < width; x++)
      read_pixel(&b, row, (uint64_t)x, image->rgb + 3 * (y * width + x));
  }
  return KD_OK;
}
