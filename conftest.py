"""What pytest needs at the root: a fixed environment for notebook kernels, patience and history for nbval."""

from lcs_utils import notebooks

notebooks.fix_environment()

try:
    from nbval import kernel, plugin
except ImportError:  # the notebooks are then not collected either
    pass
else:

    def execute_with_history(self, cell_input, allow_stdin=None):
        # nbval runs cells without history, where IPython ignores the `;` that hides a cell's last value.
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    def patient(self, *args, init=plugin.IPyNbCell.__init__, **kwargs):
        init(self, *args, **kwargs)
        self.output_timeout = 60  # nbval waits 5 s for outputs after a cell's reply; a busy machine needs longer

    kernel.RunningKernel.execute_cell_input = execute_with_history
    plugin.IPyNbCell.__init__ = patient
