/* pictures_test.c - files of pictures: their pixels, and what is broken about some. */
#include "opsets/pictures/decoders.h"
#include "threads/cancel.h"

#include "fuzz/random.h"
#define WORKERS 0
#include "with_cpu.h"

#define SIZE_MOST 8192
enum { WIDTH = 17, HEIGHT = 12 }; /* of the files in data/pictures */

typedef struct file {
  uint8_t data[SIZE_MOST];
  size_t size;
} file;

static file open_file(const char *name) {
  char path[512];
  file all = {.size = 0};
  snprintf(path, sizeof path, TEST_DATA "/pictures/%s", name);
  FILE *from = fopen(path, "rb");
  if (!from) fail_msg("%s is not there", path);
  all.size = fread(all.data, 1, SIZE_MOST, from);
  fclose(from);
  assert_true(all.size > 0 && all.size < SIZE_MOST);
  return all;
}

/* Pixels as the files of that name have them, up to what a lossy form takes. */
static void sharp(int x, int y, uint8_t *rgb) {
  rgb[0] = (uint8_t)(x * 15);
  rgb[1] = (uint8_t)(y * 20);
  rgb[2] = (uint8_t)(x * y % 7 * 36);
}

static void smooth(int x, int y, uint8_t *rgb) {
  sharp(x, y, rgb);
  rgb[2] = (uint8_t)(255 - x * 8);
}

static void grey(int x, int y, uint8_t *rgb) {
  smooth(x, y, rgb);
  int level = (rgb[0] * 299 + rgb[1] * 587 + rgb[2] * 114 + 500) / 1000;
  memset(rgb, level, 3);
}

static void striped(int x, int y, uint8_t *rgb) {
  (void)x;
  memset(rgb, y * 20, 3);
}

static const struct {
  const char *name;
  void (*pixel)(int x, int y, uint8_t *rgb);
  int off; /* at most */
} files[] = {
    {"rgb.bmp", sharp, 0},          {"rgb.ppm", sharp, 0},
    {"rgb.png", sharp, 0},          {"transparent.png", sharp, 0},
    {"interlaced.png", striped, 0}, {"rgb.webp", sharp, 0},
    {"rgb.tif", sharp, 0},          {"rgb.jp2", sharp, 0},
    {"rgb.j2k", sharp, 0},          {"smooth.jpg", smooth, 6},
    {"smooth.webp", smooth, 16},    {"smooth_progressive.jpg", smooth, 40},
    {"grey.jpg", grey, 8},          {"print.jpg", smooth, 10},
    {"palette.png", sharp, 150},
};

/* A format whose library is not there is no failure. */
static bool can_read(const file *from, keel_picture *out) {
  keel_status status = keel_picture_read(context, from->data, from->size, out);
  if (status == KD_UNIMPLEMENTED) {
    assert_true(strstr(keel_message(), "library") ||
                strstr(keel_message(), "libpng"));
    return false;
  }
  expect_ok(status);
  return true;
}

TEST_THAT(files_give_their_pixels) {
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    file from = open_file(files[i].name);
    keel_picture picture = {0};
    if (!can_read(&from, &picture)) continue;
    assert_int_equal(picture.width, WIDTH);
    assert_int_equal(picture.height, HEIGHT);
    for (int k = 0; k < WIDTH * HEIGHT * 3; k++) {
      uint8_t rgb[3];
      files[i].pixel(k / 3 % WIDTH, k / 3 / WIDTH, rgb);
      if (abs(picture.rgb[k] - rgb[k % 3]) > files[i].off)
        fail_msg("%s: byte %d is %d, not %d", files[i].name, k, picture.rgb[k],
                 rgb[k % 3]);
    }
    keel_picture_free(&picture);
  }
}

/* ---- BMP and PNM, written here -------------------------------------------------------- */

/* Three pixels by two: 0 is black, 1 white, 2 red. */
static void expect_pixels(const void *data, size_t size, const char *wanted) {
  static const uint8_t colours[3][3] = {
      {0, 0, 0}, {255, 255, 255}, {255, 0, 0}};
  keel_picture picture = {0};
  expect_ok(keel_picture_read(context, data, size, &picture));
  assert_int_equal(picture.width, 3);
  assert_int_equal(picture.height, 2);
  for (int i = 0; i < 6; i++)
    assert_memory_equal(picture.rgb + 3 * i, colours[wanted[i] - '0'], 3);
  keel_picture_free(&picture);
}

#define TEXT(text) (text), sizeof(text) - 1

TEST_THAT(pnm_of_all_kinds) {
  expect_pixels(TEXT("P1 # bits\n3 2\n011\n1 0 1"), "100010");
  expect_pixels(TEXT("P2\n3 2 9\n9 0 0\n0 9 0\n"), "100010");
  expect_pixels(TEXT("P3 3 2 1 1 1 1 0 0 0 1 0 0 0 0 0 1 1 1 0 0 0"), "102010");
  expect_pixels(TEXT("P4 3 2\n\x60\xA0"), "100010");
  expect_pixels(TEXT("P5 3 2 255\n\xFF\0\0\0\xFF\0"), "100010");
  expect_pixels(TEXT("P5 3 2 65535\n\xFF\xFF\0\0\0\0\0\0\xFF\xFF\0\0"),
                "100010");
}

typedef struct bmp {
  uint8_t data[200];
  size_t size;
} bmp;

static void put(bmp *b, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    b->data[b->size++] = (uint8_t)(i < 4 ? value >> 8 * i : 0);
}

/* The header of 3 by 2 pixels, whose colours or masks and pixels follow. */
static bmp begin_bmp(int height, uint32_t bits, uint32_t compression,
                     uint32_t colours, uint32_t between) {
  bmp b = {.data = "BM", .size = 2};
  put(&b, 0, 4);
  put(&b, 0, 4);
  put(&b, 54 + between, 4);
  put(&b, 40, 4);
  put(&b, 3, 4);
  put(&b, (uint32_t)height, 4);
  put(&b, 1, 2);
  put(&b, bits, 2);
  put(&b, compression, 4);
  put(&b, 0, 12);
  b.size = 46;
  put(&b, colours, 4);
  put(&b, 0, 4);
  return b;
}

TEST_THAT(bmp_of_all_kinds) {
  bmp b = begin_bmp(2, 1, 0, 2, 8); /* rows from below */
  put(&b, 0, 4), put(&b, 0xFFFFFF, 4), put(&b, 0x40, 4), put(&b, 0x80, 4);
  expect_pixels(b.data, b.size, "100010");
  b = begin_bmp(-2, 4, 0, 3, 12); /* from above */
  put(&b, 0, 4), put(&b, 0xFFFFFF, 4), put(&b, 0xFF0000, 4);
  put(&b, 0x2010, 4), put(&b, 0x0001, 4);
  expect_pixels(b.data, b.size, "102010");
  b = begin_bmp(-2, 8, 0, 3, 12);
  put(&b, 0, 4), put(&b, 0xFFFFFF, 4), put(&b, 0xFF0000, 4);
  put(&b, 0x020001, 4), put(&b, 0x000100, 4);
  expect_pixels(b.data, b.size, "102010");
  b = begin_bmp(-2, 16, 0, 0, 0); /* 5 bits each */
  put(&b, 0x7FFF, 4), put(&b, 0x7C00, 4), put(&b, 0x7FFF0000, 4), put(&b, 0, 4);
  expect_pixels(b.data, b.size, "102010");
  b = begin_bmp(-2, 16, 3, 0, 12); /* 5, 6 and 5 */
  put(&b, 0xF800, 4), put(&b, 0x7E0, 4), put(&b, 0x1F, 4);
  put(&b, 0xFFFF, 4), put(&b, 0xF800, 4), put(&b, 0xFFFF0000, 4), put(&b, 0, 4);
  expect_pixels(b.data, b.size, "102010");
  b = begin_bmp(-2, 32, 0, 0, 0);
  for (int i = 0; i < 6; i++)
    put(&b, i == 0 || i == 4 ? 0xFFFFFF : i == 2 ? 0xFF0000 : 0, 4);
  expect_pixels(b.data, b.size, "102010");
}

/* ---- what is broken -------------------------------------------------------------------- */

static void expect_broken(const void *data, size_t size, keel_status status,
                          const char *why) {
  keel_picture picture = {0};
  expect_fails(keel_picture_read(context, data, size, &picture), status, why);
  assert_null(picture.rgb);
}

TEST_THAT(broken_files_are_refused) {
  expect_broken(TEXT("GIF89a"), KD_DATA_LOSS, "do not begin as");
  expect_broken("", 0, KD_DATA_LOSS, "0 bytes");
  expect_broken(TEXT("P7\nWIDTH 3"), KD_UNIMPLEMENTED, "not PBM");
  expect_broken(TEXT("P5 3 2 255\n12345"), KD_DATA_LOSS, "before its last");
  expect_broken(TEXT("P5 3 0 255\n12345"), KD_DATA_LOSS, "other numbers");
  expect_broken(TEXT("P2 3 2 7\n1 2 3 8 1 1"), KD_DATA_LOSS, "largest");
  expect_broken(TEXT("P6 99999999 99999999 255\n"), KD_DATA_LOSS, "before");
  bmp b = begin_bmp(2, 24, 0, 0, 0);
  expect_broken(b.data, b.size, KD_DATA_LOSS, "before its last pixel");
  expect_broken(b.data, 20, KD_DATA_LOSS, "ends in its header");
  b = begin_bmp(2, 8, 1, 0, 0);
  expect_broken(b.data, b.size, KD_UNIMPLEMENTED, "compression 1");
  b = begin_bmp(2, 8, 0, 256, 0);
  expect_broken(b.data, b.size, KD_DATA_LOSS, "palette");
  b = begin_bmp(2, 7, 0, 0, 0);
  expect_broken(b.data, b.size, KD_DATA_LOSS, "no known size");
  b = begin_bmp(1 << 23, 24, 0, 0, 0);
  b.data[20] = 1; /* 65539 by 8388608 */
  expect_broken(b.data, b.size, KD_OUT_OF_RANGE, "make it smaller");
}

TEST_THAT(libraries_may_be_missing) {
  static double (*cosine)(double);
  const keel_decoder_symbol symbols[] = {{"cos", &cosine}, {"no_such", NULL}};
  keel_decoder_library gone = {"Odd", {"libodd.so.9"}, "libodd9", NULL};
  keel_decoder_library old = {
      "Odd", {"libodd.so.9", "libm.so.6"}, "libodd9", NULL};
  expect_fails(keel_decoder_open(&gone, symbols, 1), KD_UNIMPLEMENTED,
               "Odd images need the library libodd.so.9");
  expect_message("install libodd9");
  expect_fails(keel_decoder_open(&old, symbols, 2), KD_UNIMPLEMENTED,
               "no_such");
  for (int i = 0; i < 2; i++)
    expect_ok(keel_decoder_open(&old, symbols, 1));
  assert_true(cosine(0) == 1);
}

/* Files cut off, and with other bytes: no more than an error, and none that is cut off is taken
 * for whole by more than its last bytes. */
TEST_THAT(changed_files_do_no_harm) {
  fuzz_random random = {1};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const file whole = open_file(files[i].name);
    for (int round = 0; round < 400; round++) {
      file from = whole;
      keel_picture picture = {0};
      if (round % 4 == 0) from.size = 1 + fuzz_below(&random, whole.size);
      for (uint64_t k = round % 4 ? 1 + fuzz_below(&random, 4) : 0; k--;)
        from.data[fuzz_below(&random, whole.size)] =
            (uint8_t)fuzz_below(&random, 256);
      /* its own memory, whose end is guarded where that is looked for */
      uint8_t *copy = malloc(from.size);
      memcpy(copy, from.data, from.size);
      keel_status status =
          keel_picture_read(context, copy, from.size, &picture);
      free(copy);
      assert_true((status == KD_OK) == (picture.rgb != NULL));
      if (round % 4 == 0 && from.size < whole.size * 3 / 4 && status == KD_OK)
        fail_msg("%s of %zu bytes was read", files[i].name, from.size);
      keel_picture_free(&picture);
    }
  }
}

/* ---- the op ---------------------------------------------------------------------------- */

static keel_status decode(const file *from, const char *form,
                          keel_tensor **out) {
  const int64_t size = (int64_t)from->size;
  const keel_attr attr = KEEL_STRING("pixel_format", form);
  keel_tensor *in = create_tensor(context, KD_U8, 1, &size, from->data);
  keel_status status =
      keel_call(context, "ImageDecoder", &attr, 1, &in, 1, out, 1);
  keel_tensor_release(in);
  return status;
}

TEST_THAT(the_op_has_three_forms) {
  static const char *const forms[] = {"RGB", "BGR", "Grayscale"};
  const file from = open_file("rgb.ppm");
  for (int f = 0; f < 3; f++) {
    keel_tensor *out = NULL;
    expect_ok(decode(&from, forms[f], &out));
    const uint8_t *data = keel_tensor_data(out);
    const int64_t *dims = keel_tensor_dims(out);
    assert_int_equal(keel_tensor_rank(out), 3);
    assert_int_equal(dims[0], HEIGHT);
    assert_int_equal(dims[1], WIDTH);
    assert_int_equal(dims[2], f < 2 ? 3 : 1);
    const uint8_t *at = data + (3 * WIDTH + 5) * dims[2]; /* 75, 60, 36 */
    assert_int_equal(at[0], f == 0 ? 75 : f == 1 ? 36 : 62);
    if (f < 2) assert_int_equal(at[2], f ? 75 : 36);
    keel_tensor_release(out);
  }
}

TEST_THAT(the_op_says_where) {
  file none = {.data = "nothing", .size = 7};
  keel_tensor *out = NULL;
  expect_fails(decode(&none, "RGB", &out), KD_DATA_LOSS, "do not begin as");
  expect_message("ImageDecoder");
  expect_fails(decode(&none, "RGBA", &out), KD_INVALID_ARGUMENT,
               "RGB|BGR|Grayscale");
}

/* A model says what it likes of its inputs; their bytes are read as u8. */
TEST_THAT(the_op_takes_one_file) {
  const float numbers[] = {1, 2};
  keel_tensor *inputs[] = {floats(context, 2, numbers), NULL}, *out = NULL;
  for (uint32_t i = 0; i < 3; i++) { /* a float, none, and no input at all */
    assert_int_equal(keel_call(context, "ImageDecoder", NULL, 0, &inputs[i % 2],
                               i < 2, &out, 1),
                     KD_INVALID_ARGUMENT);
    expect_message(i < 2 ? "encoded_stream" : "takes 1 input");
  }
  keel_tensor_release(inputs[0]);
}

/* A BMP file of grey pixels. */
static uint8_t *large_bmp(uint32_t side, size_t *out_size) {
  size_t row = ((size_t)side * 3 + 3) / 4 * 4;
  *out_size = 54 + row * side;
  uint8_t *data = calloc(*out_size, 1);
  assert_non_null(data);
  const uint32_t words[] = {54, 40, side, side};
  data[0] = 'B';
  data[1] = 'M';
  memcpy(data + 10, words, sizeof words);
  data[28] = 24;
  return data;
}

/* Decoders that keep more than rows are refused where their pixels would fit. */
TEST_THAT(pixels_count_before_they_are_decoded) {
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = KEEL_NO_WORKERS,
                                .memory_limit = 1500};
  keel_stats stats;
  keel_context *small = open_params(&params);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    file from = open_file(files[i].name);
    keel_picture picture = {0};
    keel_status status =
        keel_picture_read(small, from.data, from.size, &picture);
    if (status == KD_UNIMPLEMENTED) continue; /* no library */
    if (strstr(files[i].name, "progressive") || strstr(files[i].name, ".tif") ||
        strstr(files[i].name, ".jp2") || strstr(files[i].name, ".j2k")) {
      expect_fails(status, KD_OUT_OF_MEMORY, "limit of 1500 bytes");
    } else {
      expect_ok(status);
      assert_true(picture.counted >= (uint64_t)WIDTH * HEIGHT * 3);
    }
    keel_picture_free(&picture);
    keel_get_stats(small, &stats);
    assert_int_equal(stats.tensor_bytes, 0);
  }
  keel_close(small);
}

/* A file of 17 x 12 tiles, with a box in front of them that looks as if it had one. */
TEST_THAT(tiles_count_wherever_they_are) {
  static const uint8_t siz[] = {0xFF, 0x4F, 0xFF, 0x51};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = KEEL_NO_WORKERS,
                                .memory_limit = 1000000};
  const file from = open_file("rgb.jp2");
  uint8_t data[2000], *box = data, *tile;
  keel_picture picture = {0};
  assert_true(from.size + 50 < sizeof data);
  const uint8_t *begin = memmem(from.data, from.size, siz, sizeof siz);
  size_t before = (size_t)(begin - (const uint8_t *)from.data) - 8;
  memcpy(data, from.data, before);
  box += before;
  memcpy(box,
         "\0\0\0\x32"
         "free",
         8);
  memcpy(box + 8, begin, 42);
  memcpy(box + 50, begin - 8, from.size - before);
  tile = box + 50 + 8 + 24;
  tile[3] = tile[7] = 1; /* its width and height */
  keel_context *small = open_params(&params);
  keel_status status = keel_picture_read(small, data, from.size + 50, &picture);
  if (status != KD_UNIMPLEMENTED) { /* there is a library */
    assert_int_equal(status, KD_OUT_OF_MEMORY);
    expect_message("204 tiles");
  }
  keel_picture_free(&picture);
  keel_close(small);
}

TEST_THAT(decoding_ends_with_its_run) {
  size_t size = 0;
  uint8_t *data = large_bmp(600, &size);
  const keel_cancellation due = {.deadline = 1};
  keel_picture picture = {0};
  const keel_cancellation *before = keel_cancellation_use(&due);
  assert_int_equal(keel_picture_read(context, data, size, &picture),
                   KD_DEADLINE_EXCEEDED);
  keel_cancellation_use(before);
  keel_picture_free(&picture);
  expect_ok(keel_picture_read(context, data, size, &picture));
  keel_picture_free(&picture);
  free(data);
}

RUN_TESTS(open_cpu, close_context)
