/* pool_typed.h - pooling for one element type: POOL names the kernel of KIND. */
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
