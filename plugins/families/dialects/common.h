/* common.h - words of the kernels' language that every dialect spells alike; it comes
 * behind the dialect's own. */

/* the larger and the smaller of two as ONNX has it: NaN where the first is, else not */
#define LARGER(p, q)  ((p) != (p) || (p) > (q) ? (p) : (q))
#define SMALLER(p, q) ((p) != (p) || (p) < (q) ? (p) : (q))

/* before a type: what is assigned is computed as it is written, no product and sum at once */
#ifndef EXACT
#define EXACT
#endif

#define PLUS(p, q) ((p) + (q))

/* for each item of a group, s is what `join` makes of all of theirs, of type V; the group
 * shares `part`, of one each, and may use it again */
#ifndef OVER_GROUP
#define OVER_GROUP(part, s, join)                             \
  part[LID] = s;                                              \
  BARRIER;                                                    \
  for (IDX apart = GROUP / 2; apart > 0; apart = apart / 2) { \
    if (LID < apart) {                                        \
      V p_ = part[LID], q_ = part[LID + apart];               \
      part[LID] = join(p_, q_);                               \
    }                                                         \
    BARRIER;                                                  \
  }                                                           \
  s = part[0];                                                \
  BARRIER;
#endif

/* sum becomes sum + x, and `lost` has what the rounding loses: V is f32 */
#define ADD_EXACTLY(sum, lost, x)                         \
  {                                                       \
    EXACT V x_ = x, all_ = sum + x_, back_ = all_ - sum;  \
    EXACT V off_ = (sum - (all_ - back_)) + (x_ - back_); \
    sum = all_;                                           \
    lost = lost + off_;                                   \
  }

/* mean = (sum + lost) / n, rounded once; both are used up. `odd`: so that a narrower type rounds
 * it as it would the quotient, with the last bit set where digits are lost. Infinities and NaN,
 * and n that f32 can't hold, are as sum / n. */
#define MEAN_EXACTLY(mean, sum, lost, n, odd)                            \
  {                                                                      \
    EXACT V near_ = sum / CAST(V, n);                                    \
    if ((AS_I32(near_) & 0x7f800000) != 0x7f800000 &&                    \
        CAST(V, n) < CAST(V, 16777216)) {                                \
      IDX n_ = CAST(IDX, n), part_ = n_ & 0xfff;                         \
      V a_ = AS_F32(AS_I32(near_) & ~0xfff), b_ = near_ - a_;            \
      V c_ = CAST(V, n_ - part_), d_ = CAST(V, part_);                   \
      ADD_EXACTLY(sum, lost, -(a_ * c_))                                 \
      ADD_EXACTLY(sum, lost, -(a_ * d_))                                 \
      ADD_EXACTLY(sum, lost, -(b_ * c_))                                 \
      ADD_EXACTLY(sum, lost, -(b_ * d_))                                 \
      EXACT V rest_ = (sum + lost) / CAST(V, n_), made_ = near_ + rest_; \
      EXACT V left_ = rest_ - (made_ - near_);                           \
      i32 bits_ = AS_I32(made_);                                         \
      if ((odd) != 0 && left_ != CAST(V, 0) && (bits_ & 1) == 0)         \
        bits_ += (left_ > CAST(V, 0)) == (made_ > CAST(V, 0)) ? 1 : -1;  \
      near_ = AS_F32(bits_);                                             \
    }                                                                    \
    mean = near_;                                                        \
  }

/* a place in [0, n) that is as far from `a` as a multiple of n; how far two are apart */
#define WRAP(a, n)  (((a) % (n) + (n)) % (n))
#define APART(a, b) ((a) < (b) ? (b) - (a) : (a) - (b))

/* an index from data, of that type, which counts from the end where it is negative: -1 where
 * it lies outside of the dimension, also in digits that IDX has not */
#define COUNTED(type, given, dim) \
  ((given) < CAST(type, 0) ? (given) + CAST(type, dim) : (given))
#define FROM_END(type, given, dim)                     \
  (COUNTED(type, given, dim) >= CAST(type, 0) &&       \
           COUNTED(type, given, dim) < CAST(type, dim) \
       ? CAST(IDX, COUNTED(type, given, dim))          \
       : CAST(IDX, -1))
#define WITHIN(at, dim) ((at) >= 0 && (at) < (dim))

/* how many of `count` taps, each `step` behind the one before, lie less than `length` from
 * the first */
#define TAPS_BELOW(length, step, count) \
  ((length) <= 0 ? 0 : SMALLER(((length)-1) / (step) + 1, count))

/* `x` as the f32 that bf16 rounds as it would x: its rounding may have made it the middle
 * between two of bf16, which x then tells apart. Integers are compared by their digits: a
 * compiler may take one that went to f32 and came back for itself. */
#define SIZE_OF(type, x) ((x) < CAST(type, 0) ? -(x) : (x))
#define IS_MIDDLE(near)  ((AS_I32(near) & 0xffff) == 0x8000)
#define AWAY(near, by)   AS_F32(AS_I32(near) + (by))
#define DIGITS(near)     ((AS_I32(near) & 0x7fffff) | 0x800000)
#define LAST_DIGIT(near) ((AS_I32(near) >> 23 & 255) - 150)
#define NUDGED(near, is, x) \
  (IS_MIDDLE(near) && (is) != (x) ? AWAY(near, (is) < (x) ? 1 : -1) : (near))
#define WHOLE_OF(type, near, x) \
  (LAST_DIGIT(near) > 0 ? CAST(type, DIGITS(near)) << LAST_DIGIT(near) : (x))
#define REAL_TO_BF16(type, x)                                   \
  NUDGED(CAST(f32, x), SIZE_OF(type, CAST(type, CAST(f32, x))), \
         SIZE_OF(type, x))
#define WHOLE_TO_BF16(type, x)                                         \
  NUDGED(CAST(f32, x), WHOLE_OF(type, CAST(f32, x), SIZE_OF(type, x)), \
         SIZE_OF(type, x))

/* a float as an integer (defs/whole.h) */
#define TO_I32(x)                                              \
  ((x) >= -2147483648.0f && (x) < 2147483648.0f ? CAST(i32, x) \
                                                : CAST(i32, -2147483647 - 1))
#define TO_I64(x)                                                 \
  ((x) >= -9223372036854775808.0f && (x) < 9223372036854775808.0f \
       ? CAST(i64, x)                                             \
       : CAST(i64, 1) << 63)
#define TO_U64(x)                                                    \
  ((x) >= 9223372036854775808.0f                                     \
       ? (x) < 18446744073709551616.0f ? CAST(u64, x) : CAST(u64, 0) \
       : CAST(u64, TO_I64(x)))
