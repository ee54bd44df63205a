/* small.c - Cast from and to types of eight bits or less: f8, f4, i4, u4, i2 ... (defs/small.h).
 *
 * From them: by a table of all values that their bits can have, then as from f32, which holds
 * each of them exactly. To them: element by element, rounded once as small.h says; integers to
 * integers keep the low bits. Threads share pieces of PIECE elements, which are whole bytes. */
#include "defs/small.h"

#include "kernels.h"
#include "small.h"

#define PIECE 8   /* elements: whole bytes, however many are in one */
#define ROOM  512 /* elements that are decoded at a time */

typedef struct small_cast {
  const kd_tensor *x, *y;
  onnx_small_rules rules;
  float values[256]; /* of x's bits: f32 has all of them */
} small_cast;

static void small_widen(const small_cast *work, int64_t begin, int64_t end) {
  const kd_tensor *x = work->x, *y = work->y;
  float room[ROOM];
  for (int64_t i = begin, n; i < end; i += n) {
    n = end - i < ROOM ? end - i : ROOM;
    for (int64_t k = 0; k < n; k++)
      room[k] = work->values[onnx_small_bits(x->data, x->dtype, i + k)];
    cpu_convert(room, KD_F32,
                (char *)y->data + (size_t)i * kd_dtype_size(y->dtype), y->dtype,
                n);
  }
}

static void small_narrow(const small_cast *work, int64_t begin, int64_t end) {
  const kd_tensor *x = work->x, *y = work->y;
  const unsigned low = (1u << kd_dtype_bits(y->dtype)) - 1;
  if (KD_TYPES(x->dtype) & KD_TYPES_INT && !onnx_small_float_of(y->dtype) &&
      y->dtype != KD_F8E8M0) { /* the low bits of all 64 */
    kd_dtype from = x->dtype == KD_U64 ? KD_I64 : x->dtype;
    for (int64_t i = begin; i < end; i++)
      onnx_small_put(y->data, y->dtype, i,
                     (unsigned)cpu_get_whole(x->data, from, i) & low);
    return;
  }
  for (int64_t i = begin; i < end; i++)
    onnx_small_put(
        y->data, y->dtype, i,
        onnx_small_encode(y->dtype, cpu_get_odd(x->data, x->dtype, i),
                          work->rules));
}

static void cast_pieces(void *context, int64_t begin, int64_t end) {
  const small_cast *work = context;
  int64_t count = kd_elements(work->x), last = end * PIECE;
  if (last > count) last = count;
  if (onnx_is_small(work->y->dtype))
    small_narrow(work, begin * PIECE, last);
  else
    small_widen(work, begin * PIECE, last);
}

bool cpu_cast_small(const kd_launch *launch) {
  small_cast work = {.x = &launch->inputs[0], .y = &launch->outputs[0]};
  const char *round = attr_string(launch, "round_mode", "up");
  int64_t count = kd_elements(work.x);
  kd_dtype from = work.x->dtype, to = work.y->dtype;
  if (!onnx_is_small(from) && !onnx_is_small(to)) return false;
  work.rules = (onnx_small_rules){attr_int(launch, "saturate", 1) != 0, *round};
  for (unsigned i = 0; onnx_is_small(from) && i >> kd_dtype_bits(from) == 0;
       i++)
    work.values[i] = (float)onnx_small_decode(from, i);
  if (count % PIECE && !kd_dtype_size(to)) /* unused bits are zero */
    ((uint8_t *)work.y->data)[work.y->size - 1] = 0;
  cpu_host->parallel_for(cpu_host, (count + PIECE - 1) / PIECE,
                         CPU_GRAIN / PIECE / 4, cast_pieces, &work);
  return true;
}
