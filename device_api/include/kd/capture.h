/* kd/capture.h - recording a stream once and launching the recording often.
 *
 * Level 2 of the device ABI. While a stream records, enqueued work is recorded
 * and not run. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_CAPTURE_H
#define KD_CAPTURE_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer that replaces another in a recording: `from` is the buffer that later
 * launches would use, possibly since an earlier update. Frozen. */
typedef struct kd_rebind {
  kd_buffer *from;
  kd_buffer *to;
  uint64_t from_offset; /* bytes; only uses that begin here change */
  uint64_t to_offset;
} kd_rebind;

KD_STATIC_ASSERT(sizeof(void *) != 8 || sizeof(kd_rebind) == 32,
                 "kd_rebind is frozen");

/* Recording of streams. All slots except `update` are required; threads as in
 * kd_stream_table. */
typedef struct kd_capture_table {
  uint32_t struct_size; /* sizeof(kd_capture_table) as the plugin knew it */
  uint32_t reserved;

  /* Starts recording what is enqueued on `stream`, and on streams that wait for
   * its events. Until `end`, the host makes these wait for no event of another
   * stream: a recording depends on nothing outside of it but the order of the
   * stream that launches it.
   *
   * flags  none yet; an unknown bit is refused
   * Returns KD_OK, KD_FAILED_PRECONDITION (already recording), KD_UNIMPLEMENTED
   * (unknown flag). */
  kd_status (*begin)(kd_stream *stream, uint32_t flags);

  /* Ends the recording and makes it launchable. If anything that was enqueued
   * cannot be recorded, the stream is as it was before `begin`, and no
   * recording is made.
   * Returns KD_OK, KD_UNIMPLEMENTED, KD_OUT_OF_MEMORY. */
  kd_status (*end)(kd_stream *stream, KD_OWNED kd_capture **out_capture);

  /* Runs a recording in the order of `stream`. Buffers and kernels that it
   * uses stay alive until it is destroyed. A recorded copy reads and writes the
   * host memory that it was recorded with, at each launch anew; that memory
   * stays valid as long. Returns KD_OK, KD_BUSY. */
  kd_status (*launch)(kd_capture *capture, kd_stream *stream);

  /* Makes later launches use other buffers; earlier launches keep theirs, also
   * those that are still queued. A buffer whose uses are all replaced may be
   * released when they are done. If this slot is NULL or fails, the host
   * records again.
   * Returns KD_OK, KD_UNIMPLEMENTED, KD_NOT_FOUND (a buffer is not in it). */
  kd_status (*update)(kd_capture *capture, const kd_rebind *rebinds,
                      uint32_t count);

  /* Frees a recording whose launches are done. Never fails. */
  void (*destroy)(kd_capture *capture);
} kd_capture_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_CAPTURE_H */
