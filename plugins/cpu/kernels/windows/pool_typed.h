/* pool_typed.h - pooling for one element type: POOL_TYPE is pool.k's body of KIND, for results
 * [begin, end). */
static void JOINED(JOINED(POOL, _), TYPE)(void *context, int64_t begin,
                                          int64_t end) {
  const pool_work *work = context;
  const window *w = &work->w;
  const S *px = work->x;
  S *py = work->y;
  for (int64_t GID = begin; GID < end; GID++) {
#include "families/kernels/pool.k"
  }
}
