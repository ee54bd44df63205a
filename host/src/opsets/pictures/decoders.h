/* decoders.h - one decoder a format, and shared code.
 *
 * A decoder gets a file that begins as its format does. It makes the image by keel_picture_make
 * once it knows the size; on failure its caller frees what is left.
 *
 * The libraries are opened when a file of their format comes (dlopen), so that libkeel runs
 * without them: models that decode pictures are rare. Their headers are needed to build. */
#ifndef KEEL_DECODERS_H
#define KEEL_DECODERS_H

#include "opsets/pictures/picture.h"

#define KEEL_DECODERS(X) \
  X(bmp) X(jpeg) X(jpeg2000) X(png) X(pnm) X(tiff) X(webp)
#define KEEL_DECODER(format)                                           \
  keel_status keel_decode_##format(const uint8_t *data, uint64_t size, \
                                   keel_picture *image);
KEEL_DECODERS(KEEL_DECODER)
#undef KEEL_DECODER

/* Counts bytes that a decoder takes against the limit, until the image is freed. */
keel_status keel_picture_count(keel_picture *image, uint64_t bytes);

/* Sets the size, checked, and makes room for the pixels, all black. The decoder takes `beside`
 * bytes a pixel more. */
keel_status keel_picture_make(keel_picture *image, int64_t width,
                              int64_t height, uint32_t beside);

/* Whether the run goes on (keel_go_on) after so many pixels more. */
keel_status keel_picture_go_on(keel_picture *image, int64_t pixels);

/* A broken file: "FORMAT: why". */
keel_status keel_picture_broken(const char *format, const char *why);

/* A library that a decoder calls. */
typedef struct keel_decoder_library {
  const char *format; /* that it reads */
  const char *names
      [3]; /* of the library's file, the first that is there; NULL ends them */
  const char *package; /* Debian's */
  void *handle;
} keel_decoder_library;

/* A function of it, and where its address goes. */
typedef struct keel_decoder_symbol {
  const char *name;
  void *slot;
} keel_decoder_symbol;

/* Opens it, unless that was done. Any thread may call it.
 * Returns KD_OK, KD_UNIMPLEMENTED. */
keel_status keel_decoder_open(keel_decoder_library *library,
                              const keel_decoder_symbol *symbols, size_t count);

/* What a decoder calls of its library, which FUNCTIONS(X) lists, as members of `lib`, and
 * FORMAT_open_library; the last arguments are the library's names. */
#define KEEL_DECODER_SLOT(name)   __typeof__(name) *name;
#define KEEL_DECODER_SYMBOL(name) {#name, &lib.name},
#define KEEL_DECODER_LIBRARY(FUNCTIONS, its_format, text, its_package, ...) \
  static struct { FUNCTIONS(KEEL_DECODER_SLOT) } lib;                       \
  static keel_status its_format##_open_library(void) {                      \
    static keel_decoder_library library = {                                 \
        .format = text, .names = {__VA_ARGS__}, .package = its_package};    \
    static const keel_decoder_symbol symbols[] = {                          \
        FUNCTIONS(KEEL_DECODER_SYMBOL)};                                    \
    return keel_decoder_open(&library, symbols, KEEL_COUNT_OF(symbols));    \
  }

/* The error of a decoder that was built without its library's headers, and that decoder. */
keel_status keel_decoder_missing(const char *format, const char *package);
#define KEEL_DECODER_MISSING(format, text, package)                    \
  keel_status keel_decode_##format(const uint8_t *data, uint64_t size, \
                                   keel_picture *image) {              \
    (void)data;                                                        \
    (void)size;                                                        \
    (void)image;                                                       \
    return keel_decoder_missing(text, package);                        \
  }

#endif /* KEEL_DECODERS_H */
