/* member.h - a program's handle of the group that runs it: how its ops meet those of the
 * other members. */
#ifndef KEEL_MEMBER_H
#define KEEL_MEMBER_H

#include "values/resource.h"

#define KEEL_MEMBERS_MOST 1024 /* of a group whose members exchange values */

typedef enum keel_exchange_kind {
  KEEL_ALL_REDUCE,
  KEEL_ALL_GATHER,
  KEEL_REDUCE_SCATTER,
  KEEL_ALL_TO_ALL,
  KEEL_BROADCAST,
  KEEL_PERMUTE,
  /* of two members, from here on */
  KEEL_SEND,
  KEEL_RECEIVE
} keel_exchange_kind;

/* One exchange; equal for all members, except messages between two. */
typedef struct keel_exchange {
  keel_exchange_kind kind;
  uint32_t reduction; /* KD_REDUCE_* */
  uint32_t size;      /* members of each part; 0: all are one part */
  int64_t rank_count; /* of all parts; a permutation: from, to, from, to ... */
  const int64_t *ranks;  /* borrowed for the call */
  uint32_t peer;         /* of a Send: to; of a Receive: from */
  const keel_type *type; /* of the received value */
} keel_exchange;

static inline bool keel_exchange_is_of_two(const keel_exchange *what) {
  return what->kind >= KEEL_SEND;
}

/* A member of a group: the functions that the group provides (ranks/group/meeting.c,
 * ranks/link/member.c). */
typedef struct keel_member keel_member;
struct keel_member {
  uint32_t rank, size;
  /* Gives a value, and gets one, pending until all members have come. A Send gets its own value,
   * when it may have been used; a Receive gives none. name: the op's, which stays; where: its node,
   * borrowed; for messages. */
  keel_status (*meet)(keel_member *self, const keel_exchange *what,
                      const char *name, const char *where, keel_tensor *value,
                      keel_tensor **out_value);
  /* This member has left an exchange out, so that its next ones would meet others' of another
   * number: there are none any more, for that reason. */
  void (*lose)(keel_member *self, keel_tensor *failure);
  /* It has no references any more. */
  void (*leave)(keel_member *self);
};

/* A value that stands for it, and takes it over if KD_OK is returned. */
keel_status keel_member_value(keel_context *context, keel_member *member,
                              keel_tensor **out_value);
/* Whether some of the values (each may be NULL) are members. */
bool keel_members_among(keel_tensor *const *values, uint32_t count);
/* Of all members among some values (a value may be NULL), which takes no part in what it was to
 * exchange: loses it. The failure is this thread's message, and stays so. */
void keel_members_lose(keel_tensor *const *values, uint32_t count,
                       keel_status failure);

/* NULL: it is another kind of resource. */
keel_member *keel_member_of(const keel_resource *resource);

#endif /* KEEL_MEMBER_H */
