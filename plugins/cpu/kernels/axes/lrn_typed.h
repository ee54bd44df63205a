/* lrn_typed.h - LRN for one element type: NAMED(lrn) is lrn.k's body for results [begin, end). */
static void NAMED(lrn)(void *context, int64_t begin, int64_t end) {
  const lrn_work *work = context;
  const S *px = work->x;
  S *py = work->y;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/lrn.k"
  }
}
