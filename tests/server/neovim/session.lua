-- The server in Neovim 0.11, without a screen. Run: nvim --headless -u NONE -i NONE -n -l session.lua FILE PYTHON
-- Prints one line a step; a step that does not come ends with status 1.
local file, python = arg[1], arg[2]
local SECONDS = 60000 -- patience, not a measure of speed

local function ok(step)
  io.stdout:write("ok " .. step .. "\n")
end
local function fail(step)
  io.stderr:write("failed: " .. step .. "\n")
  os.exit(1)
end
local function wait(condition, step)
  if not vim.wait(SECONDS, condition, 20) then
    fail(step)
  end
  ok(step)
end
local function gelu_line()
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    if line:find("torch.tanh", 1, true) then
      return number, line
    end
  end
end

vim.cmd.edit(file)
vim.bo.filetype = "python"
local before = vim.api.nvim_buf_get_lines(0, 0, -1, false)
local id = vim.lsp.start({
  name = "kernelwright",
  cmd = { python, "-m", "kernelwright.server" },
  root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(0)),
  settings = { kernelwright = { background = "off" } },
})
local client = assert(vim.lsp.get_client_by_id(id))
wait(function()
  return client.initialized
end, "initialized")
if client.offset_encoding ~= "utf-8" then
  fail("encoding " .. client.offset_encoding)
end

local number, line = gelu_line()
wait(function()
  return #vim.diagnostic.get(0) == 1
end, "diagnostic")
local found = vim.diagnostic.get(0)[1]
if found.lnum ~= number - 1 or line:sub(found.col + 1, found.col + 3) ~= "0.5" or found.end_col ~= #line then
  fail("place of the diagnostic: " .. vim.inspect(found))
end
ok("place of the diagnostic")

vim.lsp.inlay_hint.enable(true)
wait(function()
  return #vim.lsp.inlay_hint.get({ bufnr = 0 }) == 1
end, "inlay hint")

local answer = client:request_sync("textDocument/hover", {
  textDocument = vim.lsp.util.make_text_document_params(),
  position = { line = found.lnum, character = found.col },
}, SECONDS)
if not answer.result.contents.value:find("same program", 1, true) then
  fail("hover")
end
ok("hover")

vim.api.nvim_win_set_cursor(0, { number, found.col })
vim.lsp.buf.code_action({
  apply = true,
  filter = function(action)
    return action.isPreferred
  end,
})
wait(function()
  return gelu_line() == nil
end, "quick fix")
wait(function()
  return #vim.diagnostic.get(0) == 0
end, "diagnostic gone")
vim.cmd.undo()
if not vim.deep_equal(vim.api.nvim_buf_get_lines(0, 0, -1, false), before) then
  fail("one undo takes the fix back")
end
ok("one undo takes the fix back")
wait(function()
  return #vim.diagnostic.get(0) == 1
end, "diagnostic back")

local state = client:request_sync("workspace/executeCommand", { command = "kernelwright.state" }, SECONDS)
if state.result.background ~= "off" then
  fail("state: " .. vim.inspect(state))
end
ok("command")
client:stop()
wait(function()
  return client:is_stopped()
end, "stopped")
os.exit(0)
