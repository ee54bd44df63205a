/* nbits.c - com.microsoft's MatMulNBits (kernels/nbits.k). */
#include "families/family.h"
#include "families/rows.h"

#define ITEMS_OF_A_GROUP 64
#define ROWS             4 /* of A that a byte of weights meets at once */

/* Zero points: packed as weights are, or numbers; neither: half of what there is. */
static void read_zeros(const fam_op *op, fam_plan *plan, fam_pass *pass,
                       int64_t bytes) {
  bool packed = fam_has(op, 3) && op->in[3].dtype == KD_U8;
  fam_define(pass, "ZERO_IS", "%d", !fam_has(op, 3) ? 0 : packed ? 1 : 2);
  if (packed) fam_int(plan, pass, "ZERO_BYTES", bytes);
  if (fam_has(op, 3)) fam_in(pass, "ZEROS", op, 3);
}

/* A group for each line, but on processors: their items do more each. */
static void by_lines(fam_plan *plan, fam_pass *pass, kd_dtype compute,
                     int64_t lines) {
  if (plan->wide || plan->lanes) {
    fam_items(plan, pass, lines);
    return;
  }
  fam_define(pass, "WIDE", "1");
  fam_share(pass, "part", compute, ITEMS_OF_A_GROUP);
  fam_int(plan, pass, "ITEMS", lines);
  fam_groups(pass, lines, ITEMS_OF_A_GROUP);
}

void fam_plan_matmul_nbits(const fam_op *op, fam_plan *plan) {
  const fam_tensor *a = &op->in[0];
  kd_dtype compute = fam_compute(a->dtype);
  int64_t n = fam_attr(op, "N", 1), k = fam_attr(op, "K", 1);
  int64_t bits = fam_attr(op, "bits", 4), size = fam_attr(op, "block_size", 32);
  int64_t blocks = (k + size - 1) / size, m = a->count / k;
  int64_t rows = m < ROWS ? (m ? m : 1) : ROWS;
  fam_pass *pass = fam_begin(plan, "nbits");
  fam_define(pass, "V", "%s", kd_dtype_name(compute));
  fam_define(pass, "BITS", "%d", (int)bits);
  fam_define(pass, "PER", "%d", (int)(8 / bits));
  fam_define(pass, "ROWS", "%d", (int)rows);
  fam_int(plan, pass, "BYTES", blocks * size * bits / 8);
  fam_int(plan, pass, "BLOCK", size * bits / 8);
  fam_int(plan, pass, "BLOCKS", blocks);
  fam_int(plan, pass, "N", n);
  fam_int(plan, pass, "K", k);
  fam_int(plan, pass, "M", m);
  by_lines(plan, pass, compute, n * ((m + rows - 1) / rows));
  fam_in(pass, "A", op, 0);
  fam_in(pass, "W", op, 1);
  fam_in(pass, "SCALES", op, 2);
  read_zeros(op, plan, pass, (blocks * bits + 7) / 8);
  if (fam_has(op, 5)) {
    fam_define(pass, "HAS_BIAS", "1");
    fam_in(pass, "BIAS", op, 5);
  }
  fam_out(pass, "Y", op, 0);
}
