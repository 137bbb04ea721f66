"""Pure privacy mathematics: arrays in, frozen dataclasses out. No I/O, no Ray, no Prefect."""
