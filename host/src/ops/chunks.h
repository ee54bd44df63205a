/* chunks.h - tensors that lie one behind the other in another: what a device's own copies
 * join and take out, without a kernel. */
#ifndef KEEL_CHUNKS_H
#define KEEL_CHUNKS_H

#include "values/tensor.h"

/* Whether these are ready, packed, of whole bytes and on one device that copies in its own
 * memory. */
bool keel_chunks_fit(keel_tensor *const *items, uint32_t count);

/* All of them, for which keel_chunks_fit, one behind the other (the last first where
 * `reverse`): a tensor of `type`, which has as many bytes as they have together. */
keel_status keel_chunks_join(keel_tensor *const *items, uint32_t count,
                             bool reverse, const keel_type *type,
                             keel_tensor **out_tensor);

/* What lies `offset` bytes from the beginning of a tensor, for which keel_chunks_fit, as a
 * tensor of `type`. */
keel_status keel_chunk_take(keel_tensor *tensor, uint64_t offset,
                            const keel_type *type, keel_tensor **out_tensor);

#endif /* KEEL_CHUNKS_H */
