/* devices.c -- says which devices weft sees; exits with 77 if there is none but the host. */
#include <stdio.h>
#include <weft.h>

int main(void) {
  int n = (int)weft_get(WEFT_DEVICE_COUNT);
  for (int i = 0; i < n; i++) printf("device %d: %s\n", i, weft_device_text(i));
  return n > 1 ? 0 : 77;
}
