/* image_decoder.c - ImageDecoder: a picture file's bytes become pixels. */
#include "opsets/pictures/picture.h"
#include "opsets/tables.h"

#include "device/context.h"
#include "memory/access.h"
#include "ops/runtime.h"

/* As grey as ITU-R BT.601 has it, in 16 bits behind the point. */
static uint8_t grey_of(const uint8_t *rgb) {
  return (
      uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >>
               16);
}

static keel_status image_decoder_give(keel_host_call *call,
                                      const keel_picture *image) {
  const char *form = keel_attr_string(call->op, "pixel_format", "RGB");
  bool grey = !strcmp(form, "Grayscale"), turned = !strcmp(form, "BGR");
  int64_t count = image->width * image->height;
  const int64_t dims[] = {image->height, image->width, grey ? 1 : 3};
  const keel_type *type = NULL;
  KEEL_TRY(keel_type_of(KD_U8, 3, dims, &type));
  KEEL_TRY(keel_tensor_on(&call->context->host, type, &call->outputs[0]));
  uint8_t *out = call->outputs[0]->data;
  if (!grey && !turned) memcpy(out, image->rgb, (size_t)count * 3);
  for (int64_t i = 0; grey && i < count; i++)
    out[i] = grey_of(image->rgb + 3 * i);
  for (int64_t i = 0; turned && i < 3 * count; i++)
    out[i] = image->rgb[i + 2 - 2 * (i % 3)];
  return KD_OK;
}

static keel_status run_image_decoder(keel_host_call *call) {
  keel_tensor *file = NULL;
  keel_picture image = {0};
  KEEL_TRY(keel_tensor_to_host(call->inputs[0], &file));
  keel_status status =
      keel_picture_read(call->context, file->data, file->type->bytes, &image);
  if (status == KD_OK) status = image_decoder_give(call, &image);
  if (status != KD_OK && status != KD_CANCELLED &&
      status != KD_DEADLINE_EXCEEDED) /* they name it */
    status = keel_while(status, "in ImageDecoder \"%s\"", call->where);
  keel_picture_free(&image);
  keel_tensor_release(file);
  return status;
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    RUNTIME("ImageDecoder", 20, "encoded_stream:u8 -> image:u8",
            "pixel_format:s=RGB|BGR|Grayscale", by_content, 0,
            run_image_decoder),
};

const keel_op_table keel_ops_pictures = {KEEL_TABLE_ROWS(rows)};
