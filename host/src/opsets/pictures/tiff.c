/* tiff.c - TIFF files, by libtiff 4.5 and later, which keeps errors and memory apart for each
 * file. */
#include "opsets/pictures/decoders.h"

#ifdef KEEL_WITH_TIFF
#include <stdio.h>

#include <tiffio.h>

#define MEMORY_MOST (INT64_C(1) << 29) /* that the library takes at once */

#define TIFF_FUNCTIONS(X)                 \
  X(TIFFOpenOptionsAlloc)                 \
  X(TIFFOpenOptionsFree)                  \
  X(TIFFOpenOptionsSetMaxSingleMemAlloc)  \
  X(TIFFOpenOptionsSetErrorHandlerExtR)   \
  X(TIFFOpenOptionsSetWarningHandlerExtR) \
  X(TIFFClientOpenExt)                    \
  X(TIFFClose)                            \
  X(TIFFGetField)                         \
  X(TIFFReadRGBAImageOriented)

KEEL_DECODER_LIBRARY(TIFF_FUNCTIONS, tiff, "TIFF", "libtiff6", "libtiff.so.6")

typedef struct reader {
  const uint8_t *data;
  uint64_t size, at;
  char why[256]; /* the first error */
  keel_picture *image;
  keel_status status; /* not KD_OK: the run does not go on */
} reader;

#define BESIDE 8 /* bytes of a pixel: as a word, and in a strip */

/* ---- a file in memory ---------------------------------------------------------------- */

static tmsize_t read_bytes(thandle_t handle, void *out, tmsize_t count) {
  reader *r = handle;
  uint64_t left = r->at < r->size ? r->size - r->at : 0;
  uint64_t taken = count < 0                ? 0
                   : (uint64_t)count < left ? (uint64_t)count
                                            : left;
  if (r->status == KD_OK)
    r->status = keel_picture_go_on(r->image, (int64_t)taken);
  if (r->status != KD_OK) return -1;
  if (taken) memcpy(out, r->data + r->at, taken);
  r->at += taken;
  return (tmsize_t)taken;
}

static tmsize_t write_bytes(thandle_t handle, void *data, tmsize_t count) {
  (void)handle;
  (void)data;
  (void)count;
  return -1;
}

static toff_t seek(thandle_t handle, toff_t offset, int from) {
  reader *r = handle;
  r->at = offset + (from == SEEK_CUR ? r->at : from == SEEK_END ? r->size : 0);
  return r->at;
}

static int close_file(thandle_t handle) {
  (void)handle;
  return 0;
}

static toff_t tiff_size_of(thandle_t handle) {
  return ((reader *)handle)->size;
}

static int tiff_on_error(TIFF *tiff, void *data, const char *where,
                         const char *format, va_list args) {
  reader *r = data;
  (void)tiff;
  (void)where;
  if (!*r->why) vsnprintf(r->why, sizeof r->why, format, args);
  return 1;
}

static int on_warning(TIFF *tiff, void *data, const char *where,
                      const char *format, va_list args) {
  (void)tiff;
  (void)data;
  (void)where;
  (void)format;
  (void)args;
  return 1;
}

static TIFF *open_file(reader *r) {
  TIFFOpenOptions *options = lib.TIFFOpenOptionsAlloc();
  if (!options) return NULL;
  lib.TIFFOpenOptionsSetMaxSingleMemAlloc(options, MEMORY_MOST);
  lib.TIFFOpenOptionsSetErrorHandlerExtR(options, tiff_on_error, r);
  lib.TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, r);
  TIFF *tiff =
      lib.TIFFClientOpenExt("", "rm", r, read_bytes, write_bytes, seek,
                            close_file, tiff_size_of, NULL, NULL, options);
  lib.TIFFOpenOptionsFree(options);
  return tiff;
}

/* ---- its pixels ----------------------------------------------------------------------- */

static keel_status read_pixels(reader *r, TIFF *tiff, keel_picture *image) {
  uint32_t width = 0, height = 0;
  if (!lib.TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) ||
      !lib.TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height))
    return keel_picture_broken("TIFF", "it does not say its size");
  KEEL_TRY(keel_picture_make(image, width, height, BESIDE));
  int64_t count = image->width * image->height;
  uint32_t *raster = malloc((size_t)count * sizeof *raster);
  if (!raster) return keel_no_memory((uint64_t)count * sizeof *raster);
  int good = lib.TIFFReadRGBAImageOriented(tiff, width, height, raster,
                                           ORIENTATION_TOPLEFT, 1);
  for (int64_t i = 0; good && i < count; i++) {
    image->rgb[3 * i] = (uint8_t)TIFFGetR(raster[i]);
    image->rgb[3 * i + 1] = (uint8_t)TIFFGetG(raster[i]);
    image->rgb[3 * i + 2] = (uint8_t)TIFFGetB(raster[i]);
  }
  free(raster);
  if (r->status != KD_OK) return r->status;
  return good ? KD_OK : keel_picture_broken("TIFF", r->why);
}

keel_status keel_decode_tiff(const uint8_t *data, uint64_t size,
                             keel_picture *image) {
  reader r = {.data = data, .size = size, .image = image};
  KEEL_TRY(tiff_open_library());
  TIFF *tiff = open_file(&r);
  if (!tiff && r.status != KD_OK) return r.status;
  if (!tiff) return keel_picture_broken("TIFF", r.why);
  keel_status status = read_pixels(&r, tiff, image);
  lib.TIFFClose(tiff);
  return status;
}

#else
KEEL_DECODER_MISSING(tiff, "TIFF", "libtiff-dev (4.5 or later)")
#endif
