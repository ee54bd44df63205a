/* pnm.c - PBM, PGM and PPM files, as bytes and as text. */
#include "opsets/pictures/decoders.h"

typedef struct pnm {
  const uint8_t *data;
  uint64_t size, at;
  int kind; /* 1 to 6 */
  uint32_t most;
} pnm;

static bool is_space(uint8_t byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Spaces, and comments to the end of their line. */
static void skip(pnm *p) {
  bool comment = false;
  for (; p->at < p->size; p->at++) {
    uint8_t byte = p->data[p->at];
    if (comment)
      comment = byte != '\n';
    else if (byte == '#')
      comment = true;
    else if (!is_space(byte))
      break;
  }
}

/* A number of up to `digits` digits; -1 where there is none. */
static int64_t pnm_number(pnm *p, int digits) {
  int64_t value = -1;
  skip(p);
  for (; digits-- && p->at < p->size; p->at++) {
    uint8_t byte = p->data[p->at];
    if (byte < '0' || byte > '9') break;
    value = (value < 0 ? 0 : value * 10) + byte - '0';
  }
  return value;
}

/* One number of a pixel as it is stored; -1 where the file ends. */
static int64_t sample(pnm *p) {
  uint32_t bytes = p->most > 255 ? 2 : 1;
  if (p->kind == 1) return pnm_number(p, 1);
  if (p->kind < 4) return pnm_number(p, 5);
  if (bytes > p->size - p->at) return -1;
  int64_t value = p->data[p->at];
  if (bytes == 2) value = value << 8 | p->data[p->at + 1];
  p->at += bytes;
  return value;
}

/* Rows of packed bits, 1 is black. */
static keel_status read_bits(pnm *p, keel_picture *image) {
  uint64_t row = ((uint64_t)image->width + 7) / 8;
  if (row * (uint64_t)image->height > p->size - p->at)
    return keel_picture_broken("PNM", "it ends before its last pixel");
  for (int64_t i = 0; i < image->width * image->height; i++) {
    KEEL_TRY(keel_picture_go_on(image, 1));
    int64_t x = i % image->width, y = i / image->width;
    uint8_t byte = p->data[p->at + row * (uint64_t)y + (uint64_t)x / 8];
    memset(image->rgb + 3 * i, byte >> (7 - x % 8) & 1 ? 0 : 255, 3);
  }
  return KD_OK;
}

static keel_status read_samples(pnm *p, keel_picture *image) {
  bool colour = p->kind == 3 || p->kind == 6;
  for (int64_t i = 0; i < image->width * image->height * 3; i++) {
    if (!colour && i % 3) {
      image->rgb[i] = image->rgb[i - 1];
      continue;
    }
    uint64_t before = p->at;
    int64_t value = sample(p);
    KEEL_TRY(keel_picture_go_on(image, (int64_t)(p->at - before)));
    if (value < 0 || value > p->most)
      return keel_picture_broken(
          "PNM", value < 0 ? "it ends before its last pixel"
                           : "a pixel is more than the file's largest");
    if (p->kind == 1) value = 1 - value;
    image->rgb[i] = (uint8_t)((value * 255 + p->most / 2) / p->most);
  }
  return KD_OK;
}

keel_status keel_decode_pnm(const uint8_t *data, uint64_t size,
                            keel_picture *image) {
  pnm p = {.data = data, .size = size, .at = 2, .kind = data[1] - '0'};
  if (p.kind < 1 || p.kind > 6)
    return keel_fail(KD_UNIMPLEMENTED,
                     "a file that begins with P and is not PBM, PGM or PPM");
  int64_t width = pnm_number(&p, 9), height = pnm_number(&p, 9);
  int64_t most = p.kind == 1 || p.kind == 4 ? 1 : pnm_number(&p, 5);
  if (width < 1 || height < 1 || most < 1 || most > 65535)
    return keel_picture_broken("PNM",
                               "its header has other numbers than width,"
                               " height and largest");
  p.most = (uint32_t)most;
  if (p.kind >= 4) {
    if (p.at == size || !is_space(data[p.at]))
      return keel_picture_broken("PNM", "it ends in its header");
    p.at++; /* one space, and the pixels */
  }
  /* as text, each pixel takes a byte and more */
  if ((uint64_t)width > 8 * size || (uint64_t)height > 8 * size)
    return keel_picture_broken("PNM", "it ends before its last pixel");
  KEEL_TRY(keel_picture_make(image, width, height, 0));
  return p.kind == 4 ? read_bits(&p, image) : read_samples(&p, image);
}
