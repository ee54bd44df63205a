/* fault.h - a plugin around another one, with one defect put between. */
#ifndef KC_FAULT_H
#define KC_FAULT_H

#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mutants/named.h"

extern char fault_variant[64]; /* KEEL_FAULT; "": sound */
#define BUG(name) named(fault_variant, #name)

/* The plugin within, its tables full size; and what the host sees. */
extern kd_plugin inner, outer;
extern kd_memory_table inner_memory;
extern kd_stream_table inner_streams;
extern kd_event_table inner_events;
extern const kd_host *host;

/* Calls of device_open since the library was loaded. */
extern uint32_t fault_device_opens;

void nap(long microseconds);
/* As much as the table has of `size` bytes; the rest is 0. */
void copy_sized(void *target, size_t size, const void *source);
void leak(size_t size);
/* A thread that nobody joins. */
void start_thread(void *(*body)(void *), void *context);

/* What a driver should leave alone; process.c. */
void change_process(void);

/* Put wrappers into the outer tables. */
void wrap_memory(void);
void wrap_streams(void);
void wrap_options(void);
bool wrap_kernels(void);

#endif /* KC_FAULT_H */
