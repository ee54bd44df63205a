/* error.c - the text of a thread's last failure, and the names of statuses. */
#include <kd/help.h>

#include "base/base.h"
#include "system/locale.h"
#include "system/printable.h"

#define MESSAGE_ROOM 4096

static _Thread_local char message[MESSAGE_ROOM];
static _Thread_local bool said;

/* Names in it may come from a device, a file or a model. */
static keel_status error_record(keel_status status, size_t at,
                                const char *format, va_list args) {
  char text[MESSAGE_ROOM]; /* the arguments may point into `message` */
  keel_plain plain = keel_plain_begin();
  vsnprintf(text, sizeof text, format, args);
  keel_plain_end(plain);
  snprintf(message + at, sizeof message - at, "%s", text);
  keel_make_printable(message + at, "\n\t");
  said = true;
  return status;
}

keel_status keel_fail(keel_status status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  error_record(status, 0, format, args);
  va_end(args);
  return status;
}

keel_status keel_fail_text(keel_status status, const char *text) {
  return keel_fail(status, "%s", text);
}

keel_status keel_while(keel_status status, const char *format, ...) {
  size_t at = strlen(message);
  if (at + 2 >= sizeof message) return status;
  va_list args;
  va_start(args, format);
  if (at) {
    memcpy(message + at, "; ", 3);
    at += 2;
  }
  error_record(status, at, format, args);
  va_end(args);
  return status;
}

void keel_note_no_memory(uint64_t size) {
  keel_fail(KD_OUT_OF_MEMORY, "out of host memory: %llu bytes requested",
            (unsigned long long)size);
}

void keel_clear_error(void) {
  said = false;
}

bool keel_has_error(void) {
  return said;
}

const char *keel_message(void) {
  return message;
}

const char *keel_status_name(keel_status status) {
  return kd_status_name(status);
}

const char *keel_dtype_name(kd_dtype dtype) {
  return kd_dtype_name(dtype);
}

uint32_t keel_dtype_size(kd_dtype dtype) {
  return kd_dtype_size(dtype);
}

kd_dtype keel_dtype_of(const char *name) {
  static const struct {
    const char *name;
    kd_dtype dtype;
  } others[] = {
      {"float", KD_F32},     {"uint8", KD_U8},        {"int8", KD_I8},
      {"uint16", KD_U16},    {"int16", KD_I16},       {"int32", KD_I32},
      {"int64", KD_I64},     {"string", KD_STRING},   {"float16", KD_F16},
      {"double", KD_F64},    {"uint32", KD_U32},      {"uint64", KD_U64},
      {"complex64", KD_C64}, {"complex128", KD_C128}, {"bfloat16", KD_BF16},
  };
  for (kd_dtype i = 1; i < KD_DTYPE_COUNT; i++)
    if (!strcmp(name, kd_dtype_name(i))) return i;
  for (size_t i = 0; i < KEEL_COUNT_OF(others); i++)
    if (!strcmp(name, others[i].name)) return others[i].dtype;
  return KD_NONE;
}
