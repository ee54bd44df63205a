/* webp.c - WebP files, by libwebp; no moving ones. */
#include "opsets/pictures/decoders.h"

#ifdef KEEL_WITH_WEBP
#include <webp/decode.h>

#define WEBP_FUNCTIONS(X)    \
  X(WebPGetFeaturesInternal) \
  X(WebPINewRGB)             \
  X(WebPIAppend)             \
  X(WebPIDelete)

#define BESIDE 4 /* bytes of a pixel, where nothing is lost */
#define PIECE  4096

KEEL_DECODER_LIBRARY(WEBP_FUNCTIONS, webp, "WebP", "libwebp7", "libwebp.so.7",
                     "libwebp.so.6")

/* In pieces, between which the run may end. */
static keel_status decode(WebPIDecoder *decoder, const uint8_t *data,
                          uint64_t size, keel_picture *image) {
  VP8StatusCode code = VP8_STATUS_SUSPENDED;
  for (uint64_t at = 0; at < size && code == VP8_STATUS_SUSPENDED;) {
    uint64_t part = size - at < PIECE ? size - at : PIECE;
    KEEL_TRY(keel_picture_go_on(image, (int64_t)(2 * part)));
    code = lib.WebPIAppend(decoder, data + at, part);
    at += part;
  }
  return code == VP8_STATUS_OK
             ? KD_OK
             : keel_picture_broken("WebP", "its pixels cannot be read");
}

keel_status keel_decode_webp(const uint8_t *data, uint64_t size,
                             keel_picture *image) {
  WebPBitstreamFeatures facts;
  KEEL_TRY(webp_open_library());
  if (lib.WebPGetFeaturesInternal(data, size, &facts,
                                  WEBP_DECODER_ABI_VERSION) != VP8_STATUS_OK)
    return keel_picture_broken("WebP", "its header cannot be read");
  if (facts.has_animation)
    return keel_fail(KD_UNIMPLEMENTED, "a WebP file with moving pictures");
  KEEL_TRY(keel_picture_make(image, facts.width, facts.height, BESIDE));
  uint64_t bytes = (uint64_t)image->width * (uint64_t)image->height * 3;
  WebPIDecoder *decoder =
      lib.WebPINewRGB(MODE_RGB, image->rgb, bytes, 3 * facts.width);
  if (!decoder) return keel_no_memory(bytes);
  keel_status status = decode(decoder, data, size, image);
  lib.WebPIDelete(decoder);
  return status;
}

#else
KEEL_DECODER_MISSING(webp, "WebP", "libwebp-dev")
#endif
