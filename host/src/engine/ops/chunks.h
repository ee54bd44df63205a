/* chunks.h - concatenating tensors and extracting contiguous parts by a device's own
 * copies, without a kernel. */
#ifndef KEEL_CHUNKS_H
#define KEEL_CHUNKS_H

#include "values/tensor.h"

/* Whether these are ready, packed, of whole bytes, and on one device that can copy within
 * its memory. */
bool keel_chunks_fit(keel_tensor *const *items, uint32_t count);

/* Concatenates them (in reverse order if `reverse`) to a tensor of `type`, which has as
 * many bytes as all of them. keel_chunks_fit must be true. */
keel_status keel_chunks_join(keel_tensor *const *items, uint32_t count,
                             bool reverse, const keel_type *type,
                             keel_tensor **out_tensor);

/* Copies the part at byte `offset` of a tensor to a new tensor of `type`. keel_chunks_fit
 * must be true. */
keel_status keel_chunk_take(keel_tensor *tensor, uint64_t offset,
                            const keel_type *type, keel_tensor **out_tensor);

#endif /* KEEL_CHUNKS_H */
