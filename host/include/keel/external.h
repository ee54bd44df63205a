/* keel/external.h - sharing tensors' memory with other processes, libraries and
 * devices, by file descriptors and without a copy.
 *
 * kd/memory.h lists the kinds. KD_EXTERNAL_SHARED_FD is for all devices that
 * use host memory, and for mmap; KD_EXTERNAL_OPAQUE_FD for devices of equal
 * uuid and driver (keel_device_facts); KD_EXTERNAL_DMA_BUF for devices whose
 * drivers accept it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_EXTERNAL_H
#define KEEL_EXTERNAL_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exports the data of a tensor on a device as a descriptor. Waits for the value
 * and for the device's work on it.
 *
 * A tensor whose memory was made for export (keel_device_export) is exported as
 * it is. For any other the device makes a copy at each call, and the descriptor
 * covers nothing else. Values do not change, so the memory must not be written.
 * Keel does not use it for anything else, even after the tensor is released: any
 * holder or importer of the descriptor may read the memory without a time limit.
 *
 * kind        KD_EXTERNAL_OPAQUE_FD, _DMA_BUF or _SHARED_FD
 * out_memory  the data begins at its offset; its size is at least the tensor's.
 *             Give both to the importer unchanged
 * Owns     the descriptor (`handle`) is the caller's: to close, to send to
 * another process, or to import.
 * Returns KD_OK, KD_INVALID_ARGUMENT (host memory, no data, a kind that is not
 * a descriptor), KD_UNIMPLEMENTED (the device exports nothing of this kind),
 * KD_OUT_OF_MEMORY, or the value's failure. */
KEEL_API keel_status keel_tensor_export(keel_tensor *tensor, uint32_t kind,
                                        kd_external *out_memory);

/* Makes a tensor on a device from memory behind a descriptor, without a copy.
 * All writes to the memory must be done before the call. It must not be written
 * while the tensor, or unfinished work that reads it, exists.
 *
 * memory  as keel_tensor_export or another library returned it; the packed
 *         elements begin at its offset, and its size is at least theirs
 * Owns     on KD_OK the descriptor is Keel's, which closes it at some time;
 * otherwise it stays the caller's.
 * Returns KD_OK, KD_INVALID_ARGUMENT (no such descriptor, less than the
 * tensor's size, type or dims as for keel_tensor_create), KD_UNIMPLEMENTED (the
 * device accepts no memory of this kind or offset), or why the device cannot be
 * used. */
KEEL_API keel_status keel_tensor_import(keel_device *device,
                                        const kd_external *memory,
                                        kd_dtype dtype, uint32_t rank,
                                        const int64_t *dims,
                                        KD_OWNED keel_tensor **out_tensor);

/* From now on, makes tensors of more than 64 KiB on the device in memory that
 * can be exported as `kind`: keel_tensor_export then needs no copy, nor does
 * keel_tensor_to for devices of other plugins that accept the kind. Each tensor
 * takes a descriptor or an allocation of the driver, of which there are some
 * thousands; when they run out, tensors are made as usual. Memory that was
 * never exported is reused: bytes after a tensor's data may be those of an
 * earlier tensor of this context.
 *
 * kind  as for keel_tensor_export; 0: back to the default
 * Returns KD_OK, KD_INVALID_ARGUMENT, KD_UNIMPLEMENTED (the device exports
 * nothing of this kind), or why the device cannot be used. */
KEEL_API keel_status keel_device_export(keel_device *device, uint32_t kind);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_EXTERNAL_H */
