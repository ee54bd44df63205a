/* picture.c - which decoder a file is for, and what decoders share. */
#include <dlfcn.h>
#include <pthread.h>

#include "device/heap.h"
#include "opsets/pictures/decoders.h"
#include "threads/cancel.h"

#define SIDE_MOST (INT64_C(1) << 24)

/* ---- what decoders share --------------------------------------------------------- */

keel_status keel_picture_count(keel_picture *image, uint64_t bytes) {
  KEEL_TRY(keel_heap_reserve(image->context, bytes));
  image->counted += bytes;
  return KD_OK;
}

keel_status keel_picture_go_on(keel_picture *image, int64_t pixels) {
  return keel_go_on(&image->pace, (uint64_t)pixels * 10);
}

keel_status keel_picture_make(keel_picture *image, int64_t width,
                              int64_t height, uint32_t beside) {
  if (width < 1 || height < 1)
    return keel_fail(KD_DATA_LOSS, "an image of %lld by %lld pixels",
                     (long long)width, (long long)height);
  if (width > SIDE_MOST || height > SIDE_MOST ||
      width * height > KEEL_PIXELS_MOST)
    return keel_fail(KD_OUT_OF_RANGE,
                     "an image of %lld by %lld pixels is larger than the %lld"
                     " that Keel decodes; make it smaller",
                     (long long)width, (long long)height,
                     (long long)KEEL_PIXELS_MOST);
  keel_status status =
      keel_picture_count(image, (uint64_t)(width * height) * (3 + beside));
  if (status != KD_OK)
    return keel_while(status,
                      "while room was made for an image of %lld by %lld pixels",
                      (long long)width, (long long)height);
  image->width = width;
  image->height = height;
  image->rgb = calloc((size_t)(width * height), 3);
  return image->rgb ? KD_OK : keel_no_memory((uint64_t)(width * height) * 3);
}

void keel_picture_free(keel_picture *image) {
  free(image->rgb);
  if (image->counted) keel_heap_give_back(image->context, image->counted);
  *image = (keel_picture){0};
}

keel_status keel_picture_broken(const char *format, const char *why) {
  return keel_fail(KD_DATA_LOSS, "a broken %s file: %s", format, why);
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static keel_status open_locked(keel_decoder_library *library,
                               const keel_decoder_symbol *symbols,
                               size_t count) {
  void *handle = NULL;
  for (int i = 0; !handle && library->names[i]; i++)
    handle = dlopen(library->names[i], RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s images need the library %s, which is not there;"
                     " install %s",
                     library->format, library->names[0], library->package);
  for (size_t i = 0; i < count; i++) {
    void *found = dlsym(handle, symbols[i].name);
    if (!found) {
      dlclose(handle);
      return keel_fail(KD_UNIMPLEMENTED,
                       "%s images need %s, which the library %s lacks; install"
                       " another version of %s",
                       library->format, symbols[i].name, library->names[0],
                       library->package);
    }
    memcpy(symbols[i].slot, &found, sizeof found);
  }
  library->handle = handle;
  return KD_OK;
}

keel_status keel_decoder_open(keel_decoder_library *library,
                              const keel_decoder_symbol *symbols,
                              size_t count) {
  pthread_mutex_lock(&opening);
  keel_status status =
      library->handle ? KD_OK : open_locked(library, symbols, count);
  pthread_mutex_unlock(&opening);
  return status;
}

keel_status keel_decoder_missing(const char *format, const char *package) {
  return keel_fail(KD_UNIMPLEMENTED,
                   "%s images need a library that Keel was built without;"
                   " install %s and build Keel again",
                   format, package);
}

/* ---- formats ----------------------------------------------------------------------- */

/* How files begin; `?` is any byte. */
static const struct {
  const char *begin;
  uint32_t size;
  keel_status (*decode)(const uint8_t *data, uint64_t size,
                        keel_picture *image);
} formats[] = {
    {"BM", 2, keel_decode_bmp},
    {"\xFF\xD8\xFF", 3, keel_decode_jpeg},
    {"\0\0\0\x0CjP  \r\n\x87\n", 12, keel_decode_jpeg2000},
    {"\xFF\x4F\xFF\x51", 4, keel_decode_jpeg2000},
    {"\x89PNG\r\n\x1A\n", 8, keel_decode_png},
    {"P?", 2, keel_decode_pnm},
    {"II*\0", 4, keel_decode_tiff},
    {"MM\0*", 4, keel_decode_tiff},
    {"II+\0", 4, keel_decode_tiff},
    {"MM\0+", 4, keel_decode_tiff},
    {"RIFF????WEBP", 12, keel_decode_webp},
};

static bool begins(const uint8_t *data, uint64_t size, const char *begin,
                   uint32_t length) {
  for (uint32_t i = 0; i < length; i++)
    if (i >= size || (begin[i] != '?' && data[i] != (uint8_t)begin[i]))
      return false;
  return true;
}

keel_status keel_picture_read(keel_context *context, const void *data,
                              uint64_t size, keel_picture *out_image) {
  *out_image = (keel_picture){.context = context};
  for (size_t i = 0; i < KEEL_COUNT_OF(formats); i++) {
    if (!begins(data, size, formats[i].begin, formats[i].size)) continue;
    keel_status status = formats[i].decode(data, size, out_image);
    if (status != KD_OK) keel_picture_free(out_image);
    return status;
  }
  return keel_fail(KD_DATA_LOSS,
                   "%llu bytes that do not begin as a BMP, JPEG, JPEG 2000,"
                   " PNG, PNM, TIFF or WebP file does",
                   (unsigned long long)size);
}
