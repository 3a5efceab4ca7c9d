/* A stand-in for NVIDIA's libnvidia-ml.so.1 with two GPUs: the first has used 1.5 J more at each reading, the second
 * has no counter. It shows that the functions, their arguments and the unit of pynvml are used as its bindings want
 * them, and nothing about hardware or the driver. */

enum { SUCCESS = 0, NOT_SUPPORTED = 3 };
static int devices[2];
static unsigned long long millijoules = 1000000;

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return SUCCESS; }
int nvmlInit_v2(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { return result ? "Not Supported" : "Success"; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
    if (device != &devices[0]) return NOT_SUPPORTED;
    *energy = millijoules += 1500;
    return SUCCESS;
}
