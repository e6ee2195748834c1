// The slice of the Python extension's public API that Kernelwright uses, answered from the environment.
const vscode = require("vscode");

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ path: process.env.STUB_PYTHON }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
