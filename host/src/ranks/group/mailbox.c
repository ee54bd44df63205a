/* mailbox.c - lists of messages between members of a group. */
#include "ranks/group/mailbox.h"

#include "values/tensor.h"

keel_mail *keel_mailbox_take(keel_mailbox *all, uint32_t from, uint32_t to,
                             bool sent) {
  for (keel_mail **link = &all->first; *link; link = &(*link)->next) {
    keel_mail *at = *link;
    if (at->from != from || at->to != to || (at->value != NULL) != sent)
      continue;
    *link = at->next;
    if (!*link) all->last = link;
    return at;
  }
  return NULL;
}

const keel_mail *keel_mailbox_awaited(const keel_mailbox *all, uint32_t from) {
  for (const keel_mail *at = all->first; at; at = at->next)
    if (at->promise && at->from == from) return at;
  return NULL;
}

keel_status keel_mailbox_add(keel_mailbox *all, const keel_mail *like) {
  keel_mail *made = malloc(sizeof *made);
  if (!made) return keel_no_memory(sizeof *made);
  *made = *like;
  made->next = NULL;
  if (made->value) keel_tensor_retain(made->value);
  if (made->promise) keel_tensor_retain(made->promise);
  *all->last = made;
  all->last = &made->next;
  return KD_OK;
}

void keel_mail_free(keel_mail *mail) {
  keel_tensor_release(mail->value);
  keel_tensor_release(mail->promise);
  free(mail);
}

void keel_mailbox_fail(keel_mail *first, keel_tensor *failure) {
  while (first) {
    keel_mail *at = first;
    first = at->next;
    if (at->promise && failure)
      keel_tensor_follow(at->promise, failure);
    else if (at->promise)
      keel_tensor_resolve_failed(at->promise, KD_OUT_OF_MEMORY);
    keel_mail_free(at);
  }
}
