/* picture.h - pictures: from a file's bytes to pixels. */
#ifndef KEEL_PICTURE_H
#define KEEL_PICTURE_H

#include <keel/context.h>

#include "base/base.h"

/* A picture's rows from top to bottom, three bytes a pixel: red, green, blue. */
typedef struct keel_picture {
  int64_t width, height;
  uint8_t *rgb; /* owned; NULL: nothing was read */
  keel_context *context;
  uint64_t counted; /* bytes of the context's limit */
  uint64_t pace;    /* of keel_go_on */
} keel_picture;

/* Reads a BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP file, whichever it is; of several pictures
 * the first. Transparency is dropped. The caller frees the image. The pixels, and what a decoder
 * takes beside them, count against the context's limit before anything is decoded. Returns KD_OK,
 * KD_DATA_LOSS (broken, or none of these), KD_OUT_OF_RANGE (more pixels than KEEL_PIXELS_MOST),
 * KD_UNIMPLEMENTED (a form or a library that is not there), KD_OUT_OF_MEMORY, or what ends the run
 * (keel_go_on). */
keel_status keel_picture_read(keel_context *context, const void *data,
                              uint64_t size, keel_picture *out_image);
void keel_picture_free(keel_picture *image);

#define KEEL_PIXELS_MOST (INT64_C(1) << 27)

#endif /* KEEL_PICTURE_H */
