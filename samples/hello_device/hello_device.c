/* hello_device.c - lists the devices, and what became of each plugin.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <keel/keel.h>
#include <stdio.h>

int main(void) {
  keel_context *context = NULL;
  if (keel_open(NULL, &context) != KD_OK) {
    fprintf(stderr, "hello_device: %s\n", keel_message());
    return 1;
  }

  for (uint32_t i = 0; i < keel_plugin_count(context); i++) {
    keel_plugin_info info;
    keel_plugin_at(context, i, &info);
    printf("%s: %s\n", info.path,
           info.status == KD_OK ? "loaded" : info.reason);
  }
  for (uint32_t i = 0; i < keel_device_count(context); i++) {
    keel_device_facts facts;
    keel_device_describe(keel_device_at(context, i), &facts);
    printf("hello, %s: %s with %u kernels\n", facts.name, facts.product,
           facts.kernel_count);
  }

  int found = keel_device_count(context) > 0;
  keel_close(context);
  return found ? 0 : 1;
}
