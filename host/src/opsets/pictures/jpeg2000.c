/* jpeg2000.c - JPEG 2000 files and bare codestreams, by OpenJPEG. */
#include "opsets/pictures/decoders.h"
#include "threads/cancel.h"

#ifdef KEEL_WITH_OPENJPEG
#include <math.h>
#include <openjpeg.h>
#include <stdio.h>

#define COMPONENTS_MOST 4         /* colours, and transparency */
#define LONG            (1 << 16) /* pixels that are worth a look at the clock */
#define TILES_MOST      65535     /* the format's own limit */
/* as OpenJPEG 2.5 has them of each tile, and of each of its colours */
#define TILE_BYTES   22528
#define COLOUR_BYTES 2048
#define PIECE        4096 /* that is read at once: the run may end between two */

#define OPENJPEG_FUNCTIONS(X)           \
  X(opj_create_decompress)              \
  X(opj_destroy_codec)                  \
  X(opj_set_default_decoder_parameters) \
  X(opj_setup_decoder)                  \
  X(opj_set_error_handler)              \
  X(opj_stream_create)                  \
  X(opj_stream_destroy)                 \
  X(opj_stream_set_read_function)       \
  X(opj_stream_set_skip_function)       \
  X(opj_stream_set_seek_function)       \
  X(opj_stream_set_user_data)           \
  X(opj_stream_set_user_data_length)    \
  X(opj_read_header)                    \
  X(opj_decode)                         \
  X(opj_end_decompress)                 \
  X(opj_image_destroy)

KEEL_DECODER_LIBRARY(OPENJPEG_FUNCTIONS, jpeg2000, "JPEG 2000", "libopenjp2-7",
                     "libopenjp2.so.7")

typedef struct reader {
  const uint8_t *data;
  uint64_t size, at;
  opj_codec_t *codec;
  opj_stream_t *stream;
  opj_image_t *image;
  char why[256]; /* the first error */
  keel_picture *picture;
  keel_status status; /* not KD_OK: the run does not go on */
} reader;

/* ---- a file in memory ---------------------------------------------------------------- */

static OPJ_SIZE_T read_bytes(void *out, OPJ_SIZE_T count, void *user) {
  reader *r = user;
  uint64_t left = r->size - r->at, taken = count < left ? count : left;
  if (r->status == KD_OK) r->status = keel_picture_go_on(r->picture, LONG);
  if (!taken || r->status != KD_OK) return (OPJ_SIZE_T)-1;
  memcpy(out, r->data + r->at, taken);
  r->at += taken;
  return taken;
}

static OPJ_BOOL seek(OPJ_OFF_T to, void *user) {
  reader *r = user;
  if (to < 0 || (uint64_t)to > r->size) return OPJ_FALSE;
  r->at = (uint64_t)to;
  return OPJ_TRUE;
}

static OPJ_OFF_T skip(OPJ_OFF_T count, void *user) {
  reader *r = user;
  if (count < 0) return -1;
  uint64_t left = r->size - r->at;
  r->at += (uint64_t)count < left ? (uint64_t)count : left;
  return (uint64_t)count <= left ? count : -1;
}

static void jpeg2000_on_error(const char *what, void *user) {
  reader *r = user;
  if (*r->why) return;
  snprintf(r->why, sizeof r->why, "%s", what);
  r->why[strcspn(r->why, "\n")] = 0;
}

/* ---- its pixels ----------------------------------------------------------------------- */

/* An element of a component as a byte. */
static int byte_of(const opj_image_comp_t *part, int64_t i) {
  int64_t value = part->data[i], most = (INT64_C(1) << part->prec) - 1;
  if (part->sgnd) value += INT64_C(1) << (part->prec - 1);
  value = value < 0 ? 0 : value > most ? most : value;
  return (int)((value * 255 + most / 2) / most);
}

static uint8_t limited(double value) {
  return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)lround(value);
}

/* Brightness and two differences (ITU-R BT.601) become red, green and blue. */
static void from_differences(uint8_t *rgb) {
  double y = rgb[0], blue = rgb[1] - 128.0, red = rgb[2] - 128.0;
  rgb[0] = limited(y + 1.402 * red);
  rgb[1] = limited(y - 0.344136 * blue - 0.714136 * red);
  rgb[2] = limited(y + 1.772 * blue);
}

static bool has_pixels(const opj_image_comp_t *part,
                       const keel_picture *image) {
  return part->data && part->w == image->width && part->h == image->height &&
         part->prec >= 1 && part->prec <= 31;
}

static keel_status take_pixels(const opj_image_t *from, keel_picture *image) {
  uint32_t colours = from->numcomps < 3 ? 1 : 3;
  for (uint32_t i = 0; i < colours; i++)
    if (!has_pixels(&from->comps[i], image))
      return keel_fail(KD_UNIMPLEMENTED,
                       "a JPEG 2000 file whose colours have sizes of their"
                       " own; store it without that");
  for (int64_t i = 0; i < image->width * image->height; i++) {
    uint8_t *rgb = image->rgb + 3 * i;
    for (uint32_t k = 0; k < 3; k++)
      rgb[k] = (uint8_t)byte_of(&from->comps[colours == 1 ? 0 : k], i);
    if (colours == 3 && from->color_space == OPJ_CLRSPC_SYCC)
      from_differences(rgb);
  }
  return KD_OK;
}

/* The size is checked before anything is decoded. */
static keel_status read_header(reader *r, keel_picture *image) {
  if (!lib.opj_read_header(r->stream, r->codec, &r->image))
    return keel_picture_broken("JPEG 2000", r->why);
  const opj_image_t *from = r->image;
  if (from->numcomps < 1 || from->numcomps > COMPONENTS_MOST ||
      from->x1 <= from->x0 || from->y1 <= from->y0 || !from->comps)
    return keel_picture_broken("JPEG 2000",
                               "it has no pixels, or too many"
                               " colours");
  int64_t dx = from->comps[0].dx, dy = from->comps[0].dy;
  if (dx < 1 || dy < 1)
    return keel_picture_broken("JPEG 2000", "its pixels have no size");
  int64_t width = (from->x1 + dx - 1) / dx - (from->x0 + dx - 1) / dx;
  int64_t height = (from->y1 + dy - 1) / dy - (from->y0 + dy - 1) / dy;
  /* a word of each colour, in the image and in its tiles */
  return keel_picture_make(image, width, height, 8 * from->numcomps);
}

static uint64_t jpeg2000_number_at(const uint8_t *data, uint32_t bytes) {
  uint64_t value = 0;
  while (bytes--)
    value = value << 8 | *data++;
  return value;
}

/* The tiles of a codestream, from its SOC on; 0 if OpenJPEG reports their errors. */
static uint64_t tiles_at(const uint8_t *at) {
  uint64_t tiles = 1;
  for (uint32_t axis = 0; axis < 2; axis++) {
    uint64_t end = jpeg2000_number_at(at + 8 + 4 * axis, 4);
    uint64_t size = jpeg2000_number_at(at + 24 + 4 * axis, 4);
    uint64_t from = jpeg2000_number_at(at + 32 + 4 * axis, 4);
    if (!size || end <= from) return 0;
    tiles *= (end - from + size - 1) / size;
  }
  return tiles > TILES_MOST ? 0 : tiles;
}

/* The memory that OpenJPEG takes for each tile as soon as it reads the header, computed before.
 * Another box may contain bytes like a codestream before it: the largest counts. */
static keel_status count_tiles(const reader *r, keel_picture *image) {
  static const uint8_t begin[] = {0xFF, 0x4F, 0xFF, 0x51}; /* SOC, SIZ */
  const uint8_t *at = r->data, *end = r->data + r->size;
  uint64_t most = 0, most_tiles = 0;
  while ((at = memmem(at, (size_t)(end - at), begin, sizeof begin)) &&
         end - at >= 42) {
    uint64_t tiles = tiles_at(at);
    uint64_t bytes =
        tiles * (TILE_BYTES + jpeg2000_number_at(at + 40, 2) * COLOUR_BYTES);
    if (bytes > most) {
      most = bytes;
      most_tiles = tiles;
    }
    at += sizeof begin;
  }
  if (!most) return KD_OK;
  keel_status status = keel_picture_count(image, most);
  return status == KD_OK ? KD_OK
                         : keel_while(status,
                                      "while room was made for %llu"
                                      " tiles of a JPEG 2000 file",
                                      (unsigned long long)most_tiles);
}

static keel_status decode(reader *r, keel_picture *image) {
  KEEL_TRY(count_tiles(r, image));
  opj_dparameters_t how;
  lib.opj_set_default_decoder_parameters(&how);
  lib.opj_set_error_handler(r->codec, jpeg2000_on_error, r);
  lib.opj_stream_set_read_function(r->stream, read_bytes);
  lib.opj_stream_set_skip_function(r->stream, skip);
  lib.opj_stream_set_seek_function(r->stream, seek);
  lib.opj_stream_set_user_data(r->stream, r, NULL);
  lib.opj_stream_set_user_data_length(r->stream, r->size);
  if (!lib.opj_setup_decoder(r->codec, &how))
    return keel_picture_broken("JPEG 2000", r->why);
  KEEL_TRY(read_header(r, image));
  if (!lib.opj_decode(r->codec, r->stream, r->image) ||
      !lib.opj_end_decompress(r->codec, r->stream))
    return keel_picture_broken("JPEG 2000", r->why);
  return take_pixels(r->image, image);
}

keel_status keel_decode_jpeg2000(const uint8_t *data, uint64_t size,
                                 keel_picture *image) {
  reader r = {.data = data, .size = size, .picture = image};
  KEEL_TRY(jpeg2000_open_library());
  r.codec = lib.opj_create_decompress(data[0] ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
  r.stream = lib.opj_stream_create(PIECE, OPJ_TRUE);
  keel_status status =
      r.codec && r.stream ? decode(&r, image) : keel_no_memory(PIECE);
  if (r.status != KD_OK) status = keel_cancellation_look(); /* not broken */
  if (r.image) lib.opj_image_destroy(r.image);
  if (r.stream) lib.opj_stream_destroy(r.stream);
  if (r.codec) lib.opj_destroy_codec(r.codec);
  return status;
}

#else
KEEL_DECODER_MISSING(jpeg2000, "JPEG 2000", "libopenjp2-7-dev")
#endif
