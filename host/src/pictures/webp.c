/* webp.c - WebP files, by libwebp; no moving ones. */
#include "pictures/decoders.h"

#ifdef KEEL_WITH_WEBP
#include <webp/decode.h>

#define WEBP_FUNCTIONS(X) X(WebPGetFeaturesInternal) X(WebPDecodeRGBInto)

static struct {
#define SLOT(name) __typeof__(name) *name;
  WEBP_FUNCTIONS(SLOT)
#undef SLOT
} lib;

static keel_status open_library(void) {
  static keel_decoder_library library = {
      .format = "WebP",
      .names = {"libwebp.so.7", "libwebp.so.6"},
      .package = "libwebp7"};
#define SYMBOL(name) {#name, &lib.name},
  static const keel_decoder_symbol symbols[] = {WEBP_FUNCTIONS(SYMBOL)};
#undef SYMBOL
  return keel_decoder_open(&library, symbols, KEEL_COUNT_OF(symbols));
}

keel_status keel_decode_webp(const uint8_t *data, uint64_t size,
                             keel_picture *image) {
  WebPBitstreamFeatures facts;
  KEEL_TRY(open_library());
  if (lib.WebPGetFeaturesInternal(data, size, &facts,
                                  WEBP_DECODER_ABI_VERSION) != VP8_STATUS_OK)
    return keel_picture_broken("WebP", "its header cannot be read");
  if (facts.has_animation)
    return keel_fail(KD_UNIMPLEMENTED, "a WebP file with moving pictures");
  KEEL_TRY(keel_picture_make(image, facts.width, facts.height));
  uint64_t bytes = (uint64_t)image->width * (uint64_t)image->height * 3;
  return lib.WebPDecodeRGBInto(data, size, image->rgb, bytes, 3 * facts.width)
             ? KD_OK
             : keel_picture_broken("WebP", "its pixels cannot be read");
}

#else

keel_status keel_decode_webp(const uint8_t *data, uint64_t size,
                             keel_picture *image) {
  (void)data;
  (void)size;
  (void)image;
  return keel_decoder_missing("WebP", "libwebp-dev");
}

#endif
