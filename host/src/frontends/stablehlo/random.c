/* random.c - random numbers. */
#include "frontends/stablehlo/lower.h"

keel_status hlo_rng_bit_generator(hlo *h, const hlo_op *op) {
  enum { DEFAULT, THREE_FRY, PHILOX };
  uint64_t algorithm = 0;
  KEEL_TRY(hlo_arity(h, op, 1, 2));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "rng_algorithm", VHLO_RNG_ALGORITHM,
                     &algorithm));
  const vhlo_type *state = op->in_types[0], *bits = op->out_types[1];
  if (algorithm > PHILOX)
    return hlo_wrong(h, op, "its algorithm is number %llu",
                     (unsigned long long)algorithm);
  if (!hlo_is_unsigned(bits->dtype) && !hlo_is_signed(bits->dtype))
    return hlo_refuse(h, op, "bits of type %s", bits->what);
  if (state->dtype != KD_U64 || state->rank != 1 || state->dims[0] < 2 ||
      state->dims[0] > (algorithm == THREE_FRY ? 2 : 3))
    return hlo_refuse(h, op, "a state that is not two numbers of type ui64%s",
                      algorithm == THREE_FRY ? "" : ", or three");
  const keel_attr attrs[] = {
      KEEL_STRING("algorithm", algorithm == THREE_FRY ? "threefry" : "philox"),
      KEEL_INT("dtype", bits->dtype),
      KEEL_INTS("shape", bits->rank, bits->dims)};
  hlo_at(h);
  keel_builder_op_n(h->at, "keel::RngBitGenerator", attrs, 3, op->in, 1,
                    op->out, 2);
  return KD_OK;
}
