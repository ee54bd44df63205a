/* values.c - values in .npy files; other files go to the ONNX frontend.
 *
 * Format: "NumPy format", numpy.lib.format, versions 1.0 to 3.0. */
#include <errno.h>
#include <keel/file.h>

#include "base/utf8.h"
#include "defs/small.h"
#include "memory/access.h"
#include "values/strings.h"
#include "values/tensor.h"
#ifdef KEEL_WITH_ONNX
#include "frontends/onnx/onnx.h"
#endif

static const char magic[6] = "\x93NUMPY";

static const struct {
  const char *descr;
  kd_dtype dtype;
} kinds[] = {{"<f4", KD_F32},  {"<f8", KD_F64},  {"<f2", KD_F16},
             {"|b1", KD_BOOL}, {"|i1", KD_I8},   {"|u1", KD_U8},
             {"<i2", KD_I16},  {"<u2", KD_U16},  {"<i4", KD_I32},
             {"<u4", KD_U32},  {"<i8", KD_I64},  {"<u8", KD_U64},
             {"<c8", KD_C64},  {"<c16", KD_C128}};

/* The text behind 'key': in the header's dict literal. */
static const char *after_key(const char *header, const char *key) {
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at += strlen(key);
  return at + strspn(at, " :");
}

static keel_status parse_shape(const char *path, const char *at,
                               uint32_t *out_rank, int64_t *dims) {
  *out_rank = 0;
  if (*at++ != '(') return keel_fail(KD_DATA_LOSS, "%s: has no shape", path);
  for (at += strspn(at, " ,"); *at && *at != ')'; at += strspn(at, " ,")) {
    char *end = NULL;
    errno = 0;
    long long dim = strtoll(at, &end, 10);
    if (end == at || errno || dim < 0 || *out_rank == KD_MAX_RANK)
      return keel_fail(KD_DATA_LOSS, "%s: has a bad shape", path);
    dims[(*out_rank)++] = dim;
    at = end;
  }
  return KD_OK;
}

/* Strings that a file may say to have without a byte for them. */
#define EMPTY_MOST (1 << 20)

/* The header's type of elements: "<f4" and the like. */
typedef struct element_form {
  kd_dtype dtype;
  uint64_t points; /* of KD_STRING: of each string, in 4 bytes each */
  bool swapped;    /* the bytes of a number are in the other order */
} element_form;

static element_form find_form(const char *descr) {
  element_form form = {.swapped = descr[1] == '>'};
  char order = form.swapped || descr[1] == '=' ? '<' : descr[1];
  for (size_t i = 0; i < KEEL_COUNT_OF(kinds); i++) {
    const char *kind = kinds[i].descr;
    size_t size = strlen(kind);
    if (kind[0] == order && !strncmp(descr + 2, kind + 1, size - 1) &&
        descr[1 + size] == '\'')
      form.dtype = kinds[i].dtype;
  }
  if (order == '<' && descr[2] == 'U') {
    form.points = strtoull(descr + 3, NULL, 10);
    form.dtype = form.points > UINT32_MAX ? KD_NONE : KD_STRING;
  }
  return form;
}

/* Turns the bytes of each number around, of a complex one each half's. */
static void swap_bytes(uint8_t *bytes, uint64_t size, uint32_t each) {
  for (uint64_t at = 0; at + each <= size; at += each)
    for (uint32_t i = 0; i < each / 2; i++) {
      uint8_t byte = bytes[at + i];
      bytes[at + i] = bytes[at + each - 1 - i];
      bytes[at + each - 1 - i] = byte;
    }
}

static keel_status parse_header(const char *path, const char *header,
                                element_form *out_form, uint32_t *out_rank,
                                int64_t *dims) {
  const char *descr = after_key(header, "'descr'");
  const char *order = after_key(header, "'fortran_order'");
  const char *shape = after_key(header, "'shape'");
  if (!descr || !order || !shape || *descr != '\'')
    return keel_fail(KD_DATA_LOSS, "%s: its numpy header is damaged", path);
  *out_form = find_form(descr);
  if (out_form->dtype == KD_NONE)
    return keel_fail(KD_UNIMPLEMENTED, "%s: numpy type %.8s is not supported",
                     path, descr);
  if (!strncmp(order, "True", 4))
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s: is in Fortran order; save numpy.ascontiguousarray of"
                     " it",
                     path);
  return parse_shape(path, shape, out_rank, dims);
}

/* Strings of as many code points each, filled up with 0. */
static keel_status load_strings(keel_context *context, const keel_type *type,
                                const uint8_t *data, uint64_t points,
                                keel_tensor **out_value) {
  uint64_t each = points * 4; /* bytes, as UTF-8 needs no more */
  keel_piece *pieces = keel_pieces_new(type->elements);
  char *text = malloc((uint64_t)type->elements * each + 1);
  keel_status status =
      pieces && text ? KD_OK : keel_no_memory((uint64_t)type->elements * each);
  for (int64_t i = 0; i < type->elements && status == KD_OK; i++) {
    char *at = text + (uint64_t)i * each;
    pieces[i].at = at;
    for (uint64_t k = 0; k < points; k++) {
      uint32_t point = 0;
      memcpy(&point, data + ((uint64_t)i * points + k) * 4, sizeof point);
      if (!point) break;
      pieces[i].size += keel_utf8_put(point, at + pieces[i].size);
    }
  }
  if (status == KD_OK)
    status = keel_strings_tensor(context, type, pieces, out_value);
  free(pieces);
  free(text);
  return status;
}

static keel_status take_elements(keel_context *context,
                                 const element_form *form,
                                 const keel_type *type, const uint8_t *data,
                                 uint64_t size, keel_tensor **out_value) {
  uint8_t *own = form->swapped ? malloc(size + 1) : NULL;
  if (form->swapped) {
    if (!own) return keel_no_memory(size);
    if (size) memcpy(own, data, size);
    swap_bytes(
        own, size,
        form->dtype == KD_STRING ? 4 : keel_dtype_alignment(form->dtype));
    data = own;
  }
  keel_status status =
      form->dtype == KD_STRING
          ? load_strings(context, type, data, form->points, out_value)
          : keel_tensor_create(context, form->dtype, type->rank, type->dims,
                               data, out_value);
  free(own);
  return status;
}

static keel_status load_npy(keel_context *context, const char *path,
                            const keel_file *file, keel_tensor **out_value) {
  const uint8_t *data = file->data;
  uint64_t head = data[6] >= 2 ? 12 : 10;
  if (file->size < head)
    return keel_fail(KD_DATA_LOSS, "%s: is truncated", path);
  uint64_t size = data[8] | (uint64_t)data[9] << 8;
  if (data[6] >= 2) size |= (uint64_t)data[10] << 16 | (uint64_t)data[11] << 24;
  if (data[6] < 1 || data[6] > 3 || size > file->size - head || size > 65536)
    return keel_fail(KD_DATA_LOSS, "%s: its numpy header is damaged", path);
  char *header = malloc(size + 1);
  if (!header) return keel_no_memory(size);
  memcpy(header, data + head, size);
  header[size] = 0;
  element_form form = {0};
  uint32_t rank = 0;
  int64_t dims[KD_MAX_RANK];
  const keel_type *type = NULL;
  keel_status status = parse_header(path, header, &form, &rank, dims);
  free(header);
  if (status == KD_OK) status = keel_type_of(form.dtype, rank, dims, &type);
  if (status != KD_OK) return status;
  uint64_t bytes = type->bytes, there = file->size - head - size;
  if (form.dtype == KD_STRING &&
      __builtin_mul_overflow((uint64_t)type->elements, form.points * 4, &bytes))
    bytes = UINT64_MAX;
  if (bytes > there)
    return keel_fail(KD_DATA_LOSS,
                     "%s: is truncated: the shape needs %llu bytes of data,"
                     " and there are %llu",
                     path, (unsigned long long)bytes,
                     (unsigned long long)there);
  if (form.dtype == KD_STRING && !form.points && type->elements > EMPTY_MOST)
    return keel_fail(KD_OUT_OF_RANGE,
                     "%s: has %lld strings of no characters, and %d are the"
                     " most",
                     path, (long long)type->elements, EMPTY_MOST);
  return take_elements(context, &form, type, data + head + size, bytes,
                       out_value);
}

keel_status keel_value_load(keel_context *context, const char *path,
                            uint32_t kind, keel_tensor **out_value) {
  keel_file file = {0};
  *out_value = NULL;
  KEEL_TRY(keel_file_open(path, &file));
  keel_status status = KD_OK;
  if (file.size >= 10 && !memcmp(file.data, magic, sizeof magic)) {
    status = load_npy(context, path, &file, out_value);
  } else {
#ifdef KEEL_WITH_ONNX
    status =
        keel_onnx_value(context, path, file.data, file.size, kind, out_value);
#else
    (void)kind;
    status = keel_fail(KD_UNIMPLEMENTED,
                       "%s: is not a .npy file, and this Keel was built without"
                       " protobuf-c",
                       path);
#endif
  }
  keel_file_close(&file);
  return status;
}

/* ---- writing -------------------------------------------------------------- */

/* Of a type that numpy has not, and all of whose values f32 has. */
static float wide_element(const keel_tensor *tensor, int64_t i) {
  float value = 0;
  if (onnx_is_small(tensor->type->dtype))
    return (float)onnx_small_get(tensor->data, tensor->type->dtype, i);
  uint32_t bits = (uint32_t)((const uint16_t *)tensor->data)[i] << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t count_points(keel_piece piece) {
  uint64_t count = 0;
  const char *end = piece.at + piece.size;
  for (uint32_t bytes = 0; piece.at < end; piece.at += bytes, count++)
    keel_utf8_get(piece.at, end, &bytes);
  return count;
}

static uint64_t longest_of(const keel_tensor *tensor) {
  uint64_t longest = 1; /* numpy has no strings of 0 */
  for (int64_t i = 0; keel_is_strings(tensor) && i < tensor->type->elements;
       i++) {
    uint64_t points = count_points(keel_strings_get(tensor->strings, i));
    if (points > longest) longest = points;
  }
  return longest;
}

/* As numpy has strings: code points, filled up with 0. A byte that is no UTF-8 becomes the point
 * that stands for such. */
static void write_strings(const keel_tensor *tensor, uint64_t points,
                          FILE *file) {
  for (int64_t i = 0; i < tensor->type->elements; i++) {
    keel_piece piece = keel_strings_get(tensor->strings, i);
    const char *at = piece.at, *end = at + piece.size;
    for (uint64_t k = 0; k < points; k++) {
      uint32_t point = 0, bytes = 0;
      if (at < end) point = keel_utf8_get(at, end, &bytes);
      if (point > 0x10ffff) point = 0xfffd;
      at += bytes;
      fwrite(&point, sizeof point, 1, file);
    }
  }
}

static keel_status write_npy(void *context, FILE *file) {
  const keel_tensor *tensor = context;
  const keel_type *type = tensor->type;
  char strings[32];
  uint64_t points = longest_of(tensor);
  bool wide = type->dtype == KD_BF16 || onnx_is_small(type->dtype);
  const char *descr = wide ? "<f4" : NULL;
  for (size_t i = 0; i < KEEL_COUNT_OF(kinds); i++)
    if (kinds[i].dtype == type->dtype) descr = kinds[i].descr;
  if (keel_is_strings(tensor)) {
    snprintf(strings, sizeof strings, "<U%llu", (unsigned long long)points);
    descr = strings;
  }
  if (!descr)
    return keel_fail(KD_UNIMPLEMENTED, "numpy has no type for %s",
                     keel_dtype_name(type->dtype));
  keel_text header = {0};
  keel_text_add(&header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                descr);
  for (uint32_t i = 0; i < type->rank; i++)
    keel_text_add(&header, "%lld,%s", (long long)type->dims[i],
                  i + 1 < type->rank ? " " : "");
  keel_text_add(&header, "), }");
  size_t total = (10 + header.size + 1 + 63) / 64 * 64;
  uint16_t size = (uint16_t)(total - 10);
  const uint8_t head[4] = {1, 0, (uint8_t)(size & 255), (uint8_t)(size >> 8)};
  fwrite(magic, 1, sizeof magic, file);
  fwrite(head, 1, sizeof head, file);
  fprintf(file, "%-*s\n", (int)size - 1, keel_text_get(&header));
  keel_text_free(&header);
  if (keel_is_strings(tensor)) {
    write_strings(tensor, points, file);
    return KD_OK;
  }
  if (!wide) {
    if (type->bytes) fwrite(tensor->data, 1, type->bytes, file);
    return KD_OK;
  }
  for (int64_t i = 0; i < type->elements; i++) {
    float value = wide_element(tensor, i);
    fwrite(&value, sizeof value, 1, file);
  }
  return KD_OK;
}

keel_status keel_value_save(keel_tensor *value, const char *path) {
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_wait_known(value));
  KEEL_TRY(keel_is_strings(value) ? keel_tensor_to(value, NULL, &here)
                                  : keel_tensor_to_host(value, &here));
  keel_status status = keel_file_replace(path, KEEL_FILE_MODE, write_npy, here);
  keel_tensor_release(here);
  return status;
}
