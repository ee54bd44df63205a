/* mailbox.h - messages between members of a group, until sender and receiver have both arrived. */
#ifndef KEEL_MAILBOX_H
#define KEEL_MAILBOX_H

#include "values/member.h"

/* A Send without its Receive yet, or the other way round. */
typedef struct keel_mail {
  struct keel_mail *next;
  uint32_t from, to;
  keel_tensor *value;    /* of a Send */
  keel_tensor *promise;  /* of a Receive */
  const keel_type *type; /* the type that it expects */
  char name[24], where[96];
} keel_mail;

/* In their order of arrival. */
typedef struct keel_mailbox {
  keel_mail *first, **last;
} keel_mailbox;

static inline void keel_mailbox_init(keel_mailbox *all) {
  *all = (keel_mailbox){NULL, &all->first};
}

/* Removes the first from one rank to another, of a Send or of a Receive; NULL: none. */
keel_mail *keel_mailbox_take(keel_mailbox *all, uint32_t from, uint32_t to,
                             bool sent);

/* A Receive that waits for a rank's next message; NULL: there is none. */
const keel_mail *keel_mailbox_awaited(const keel_mailbox *all, uint32_t from);

/* Adds one. Retains the tensor: a Send's value, or a Receive's promise. */
keel_status keel_mailbox_add(keel_mailbox *all, const keel_mail *like);

void keel_mail_free(keel_mail *mail);

/* Ends the Receives of a list with a failure (NULL: memory ran out), and frees it. */
void keel_mailbox_fail(keel_mail *first, keel_tensor *failure);

#endif /* KEEL_MAILBOX_H */
