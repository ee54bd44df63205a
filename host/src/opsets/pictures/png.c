/* png.c - PNG files, by libpng. Colours are as they are stored: gamma is not looked at. */
#include "opsets/pictures/decoders.h"

#ifdef KEEL_WITH_PNG
#include <png.h>
#include <setjmp.h>

#define PNG_FUNCTIONS(X)        \
  X(png_create_read_struct)     \
  X(png_create_info_struct)     \
  X(png_destroy_read_struct)    \
  X(png_set_read_fn)            \
  X(png_get_io_ptr)             \
  X(png_get_error_ptr)          \
  X(png_error)                  \
  X(png_read_info)              \
  X(png_get_image_width)        \
  X(png_get_image_height)       \
  X(png_get_rowbytes)           \
  X(png_set_expand)             \
  X(png_set_scale_16)           \
  X(png_set_strip_alpha)        \
  X(png_set_gray_to_rgb)        \
  X(png_set_interlace_handling) \
  X(png_read_update_info)       \
  X(png_read_row)               \
  X(png_read_end)

#define TEXT_OF(number) #number
#define FILE_OF(number) "libpng16.so." TEXT_OF(number)

KEEL_DECODER_LIBRARY(PNG_FUNCTIONS, png, "PNG", "libpng16-16",
                     FILE_OF(PNG_LIBPNG_VER_SONUM))

typedef struct reader {
  png_structp png;
  png_infop info;
  const uint8_t *data;
  uint64_t size, at;
  keel_status status;
  jmp_buf back;
} reader;

static void png_on_error(png_structp png, png_const_charp why) {
  reader *r = lib.png_get_error_ptr(png);
  r->status = keel_picture_broken("PNG", why);
  longjmp(r->back, 1);
}

static void on_warning(png_structp png, png_const_charp what) {
  (void)png;
  (void)what;
}

static void read_bytes(png_structp png, png_bytep out, png_size_t count) {
  reader *r = lib.png_get_io_ptr(png);
  if (count > r->size - r->at) lib.png_error(png, "it ends too early");
  memcpy(out, r->data + r->at, count);
  r->at += count;
}

/* Comes back here from the library's depths where something is wrong. */
static void read_image(reader *r, keel_picture *image) {
  if (setjmp(r->back)) return;
  lib.png_set_read_fn(r->png, r, read_bytes);
  lib.png_read_info(r->png, r->info);
  r->status = keel_picture_make(image, lib.png_get_image_width(r->png, r->info),
                                lib.png_get_image_height(r->png, r->info), 0);
  if (r->status != KD_OK) return;
  lib.png_set_expand(r->png);
  lib.png_set_scale_16(r->png);
  lib.png_set_strip_alpha(r->png);
  lib.png_set_gray_to_rgb(r->png);
  int passes = lib.png_set_interlace_handling(r->png);
  lib.png_read_update_info(r->png, r->info);
  if (lib.png_get_rowbytes(r->png, r->info) != (size_t)image->width * 3)
    lib.png_error(r->png, "its rows are of another length");
  for (int pass = 0; pass < passes; pass++)
    for (int64_t y = 0; y < image->height; y++) {
      r->status = keel_picture_go_on(image, image->width);
      if (r->status != KD_OK) return;
      lib.png_read_row(r->png, image->rgb + 3 * image->width * y, NULL);
    }
  lib.png_read_end(r->png, NULL);
}

keel_status keel_decode_png(const uint8_t *data, uint64_t size,
                            keel_picture *image) {
  KEEL_TRY(png_open_library());
  reader *r = calloc(1, sizeof *r);
  if (!r) return keel_no_memory(sizeof *r);
  r->data = data;
  r->size = size;
  r->png = lib.png_create_read_struct(PNG_LIBPNG_VER_STRING, r, png_on_error,
                                      on_warning);
  r->info = r->png ? lib.png_create_info_struct(r->png) : NULL;
  if (r->info)
    read_image(r, image);
  else
    r->status =
        keel_fail(KD_UNIMPLEMENTED,
                  "libpng cannot read PNG images: it is of another"
                  " version than " PNG_LIBPNG_VER_STRING ", or has no memory");
  keel_status status = r->status;
  lib.png_destroy_read_struct(&r->png, &r->info, NULL);
  free(r);
  return status;
}

#else
KEEL_DECODER_MISSING(png, "PNG", "libpng-dev")
#endif
