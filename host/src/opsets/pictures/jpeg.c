/* jpeg.c - JPEG files, by libjpeg. Colours of print (CMYK) become those of a screen. */
#include "opsets/pictures/decoders.h"

#ifdef KEEL_WITH_JPEG
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>

#define SCANS_MOST 1000 /* of a progressive file: each takes time */

#define JPEG_FUNCTIONS(X)   \
  X(jpeg_std_error)         \
  X(jpeg_CreateDecompress)  \
  X(jpeg_mem_src)           \
  X(jpeg_read_header)       \
  X(jpeg_start_decompress)  \
  X(jpeg_read_scanlines)    \
  X(jpeg_finish_decompress) \
  X(jpeg_destroy_decompress)

#if JPEG_LIB_VERSION >= 80
#define JPEG_FILE "libjpeg.so.8"
#else
#define JPEG_FILE "libjpeg.so.62"
#endif

KEEL_DECODER_LIBRARY(JPEG_FUNCTIONS, jpeg, "JPEG", "libjpeg62-turbo", JPEG_FILE)

typedef struct reader {
  struct jpeg_error_mgr errors; /* must be first: cast from it */
  struct jpeg_decompress_struct state;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  keel_status status;
  keel_picture *image;
  char text[JMSG_LENGTH_MAX];
} reader;

static void jpeg_stop(reader *r, const char *why) {
  r->status = keel_picture_broken("JPEG", why);
  longjmp(r->back, 1);
}

static void jpeg_on_error(j_common_ptr state) {
  reader *r = (reader *)(void *)state->err;
  r->errors.format_message(state, r->text);
  jpeg_stop(r, r->text);
}

/* Warnings are of bytes too many; but where a file ends early, pixels are made up. */
static void on_message(j_common_ptr state, int level) {
  int code = state->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER))
    jpeg_on_error(state);
}

static void on_progress(j_common_ptr state) {
  reader *r = (reader *)(void *)state->err;
  if (r->state.input_scan_number > SCANS_MOST)
    jpeg_stop(r, "it has too many scans");
  r->status = keel_picture_go_on(r->image, 8 * r->image->width);
  if (r->status != KD_OK) longjmp(r->back, 1);
}

static void say_nothing(j_common_ptr state) {
  (void)state;
}

/* Print's colours, which Adobe stores the other way round. */
static void from_print(const uint8_t *cmyk, bool turned, int64_t width,
                       uint8_t *rgb) {
  for (int64_t x = 0; x < width; x++)
    for (int i = 0; i < 3; i++) {
      int colour = cmyk[4 * x + i], black = cmyk[4 * x + 3];
      if (!turned) {
        colour = 255 - colour;
        black = 255 - black;
      }
      rgb[3 * x + i] = (uint8_t)((colour * black + 127) / 255);
    }
}

static void read_rows(reader *r, keel_picture *image) {
  j_decompress_ptr state = &r->state;
  bool print = state->out_color_space == JCS_CMYK;
  JSAMPARRAY line =
      print ? state->mem->alloc_sarray((j_common_ptr)state, JPOOL_IMAGE,
                                       4 * state->output_width, 1)
            : NULL;
  while (state->output_scanline < state->output_height) {
    uint8_t *row =
        image->rgb + 3 * image->width * (int64_t)state->output_scanline;
    if (lib.jpeg_read_scanlines(state, print ? line : &row, 1) != 1)
      jpeg_stop(r, "a row is missing");
    if (print) from_print(line[0], state->saw_Adobe_marker, image->width, row);
  }
}

/* Comes back here from the library's depths where something is wrong. */
static void read_image(reader *r, const uint8_t *data, uint64_t size,
                       keel_picture *image) {
  j_decompress_ptr state = &r->state;
  if (setjmp(r->back)) return;
  lib.jpeg_CreateDecompress(state, JPEG_LIB_VERSION, sizeof *state);
  state->progress = &r->progress;
  lib.jpeg_mem_src(state, data, (unsigned long)size);
  lib.jpeg_read_header(state, TRUE);
  bool print = state->jpeg_color_space == JCS_CMYK ||
               state->jpeg_color_space == JCS_YCCK;
  state->out_color_space = print ? JCS_CMYK : JCS_RGB;
  /* where not all is in one scan, the coefficients of all blocks are kept */
  bool keeps =
      state->progressive_mode || state->comps_in_scan < state->num_components;
  r->status =
      keel_picture_make(image, state->image_width, state->image_height,
                        keeps ? 2 * (uint32_t)state->num_components : 0);
  if (r->status != KD_OK) return;
  lib.jpeg_start_decompress(state);
  if ((int64_t)state->output_width != image->width ||
      (int64_t)state->output_height != image->height)
    jpeg_stop(r, "its size changes");
  read_rows(r, image);
  lib.jpeg_finish_decompress(state);
}

keel_status keel_decode_jpeg(const uint8_t *data, uint64_t size,
                             keel_picture *image) {
  KEEL_TRY(jpeg_open_library());
  reader *r = calloc(1, sizeof *r);
  if (!r) return keel_no_memory(sizeof *r);
  r->state.err = lib.jpeg_std_error(&r->errors);
  r->errors.error_exit = jpeg_on_error;
  r->errors.emit_message = on_message;
  r->errors.output_message = say_nothing;
  r->image = image;
  r->progress.progress_monitor = on_progress;
  read_image(r, data, size, image);
  keel_status status = r->status;
  lib.jpeg_destroy_decompress(&r->state);
  free(r);
  return status;
}

#else
KEEL_DECODER_MISSING(jpeg, "JPEG", "libjpeg-dev")
#endif
