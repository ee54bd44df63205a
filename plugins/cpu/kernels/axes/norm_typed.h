/* norm_typed.h - lines of one element type, normalised: NORM_TYPE is norm.k's body of KIND, for
 * lines [begin, end). */
static void JOINED(JOINED(NORM, _), TYPE)(void *context, int64_t begin,
                                          int64_t end) {
  const norm_work *work = context;
  const S *px = work->x, *pscale = work->scale, *pshift = work->shift;
  S *py = work->y;
  (void)pscale;
  (void)pshift;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/norm.k"
  }
}
