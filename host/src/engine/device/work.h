/* work.h - the enqueued work of a device, as messages name it.
 *
 * A stream reports that some of its work has failed, not which. So the newest pieces of work are
 * noted with their tickets (device/failures.h), and a failure names the piece, or the first and the
 * last of those that were under way. */
#ifndef KEEL_WORK_H
#define KEEL_WORK_H

#include "device/failures.h"

typedef struct keel_type keel_type;

/* Writes a type in words, as keel_type_text does, which this room has not. */
typedef const char *keel_type_words(const keel_type *type, char *buffer,
                                    size_t size);

#define KEEL_WORK_TYPES 4

/* A launch or a copy. */
typedef struct keel_work_name {
  const char *op;    /* as long as the context */
  const char *where; /* the node's name, or ""; copied */
  /* of inputs, or of copied values; may have NULL */
  const keel_type *const *types;
  uint32_t type_count;
  keel_type_words *type_text; /* of each */
} keel_work_name;

/* Records the work with a ticket. With the stream's lock held. */
void keel_work_note(keel_device *device, uint64_t ticket,
                    const keel_work_name *name);

/* The same of a run whose `count` launches go under one ticket.
 *
 * of        the function's name, or ""
 * recorded  they are launched as a recording */
void keel_work_note_run(keel_device *device, uint64_t ticket, const char *of,
                        uint32_t count, bool recorded,
                        const keel_work_name *first,
                        const keel_work_name *last);

/* Adds "while DEVICE ran OP "NODE" (TYPES)" to this thread's message. Returns `status`. */
keel_status keel_work_while_one(const keel_device *device,
                                const keel_work_name *name, keel_status status);

/* Adds to this thread's message which work the tickets above `after`, up to `last`, are; where
 * nothing is known of them, nothing. With the stream's lock held. Returns `status`. */
keel_status keel_work_while(keel_device *device, uint64_t after, uint64_t last,
                            keel_status status);

#endif /* KEEL_WORK_H */
