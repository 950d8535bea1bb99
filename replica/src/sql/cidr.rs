//! `ip_in_cidr(ip, block)`: whether an address lies in a block such as `10.0.0.0/8` or `2001:db8::/32`.
//!
//! Text that is no address (events of a cloud name services there) lies in no block; a block that is
//! none is an error. An IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`) is the IPv4 address.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, BooleanArray, StringArray};
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use ipnet::IpNet;

/// Characters of a bad block that an error shows.
const SHOWN: usize = 64;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct IpInCidr {
    signature: Signature,
}

impl IpInCidr {
    pub(super) fn new() -> Self {
        IpInCidr { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IpInCidr {
    fn name(&self) -> &'static str {
        "ip_in_cidr"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    /// A dictionary stays one: each of its values is looked at once.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [ip, block] = types else {
            let found = types.len();
            return plan_err!("ip_in_cidr takes an address and a block; found {found} arguments");
        };
        let text = |kind: &DataType| kind.is_string() || kind.is_null();
        let ip = match ip {
            DataType::Dictionary(_, values) if text(values) => ip.clone(),
            kind if text(kind) => DataType::Utf8,
            other => return plan_err!("ip_in_cidr takes an address as text; found {other}"),
        };
        match block {
            DataType::Dictionary(_, values) if text(values) => {}
            kind if text(kind) => {}
            other => return plan_err!("ip_in_cidr takes a block as text; found {other}"),
        }
        Ok(vec![ip, DataType::Utf8])
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ip, block] = args.args.as_slice() else {
            return exec_err!("ip_in_cidr takes an address and a block");
        };
        let ips = ip.to_array(args.number_rows)?;
        let found = match block {
            ColumnarValue::Scalar(block) => in_block(&ips, parse(block.try_as_str().flatten())?)?,
            ColumnarValue::Array(blocks) => {
                let (ips, blocks) = (text(&ips)?, text(blocks)?);
                let pairs = ips.as_string::<i32>().iter().zip(blocks.as_string::<i32>());
                let found = pairs.map(|(ip, block)| Ok(contains(parse(block)?, ip)));
                Arc::new(found.collect::<Result<BooleanArray>>()?)
            }
        };
        Ok(ColumnarValue::Array(found))
    }
}

/// Every address against one block.
fn in_block(ips: &ArrayRef, block: Option<IpNet>) -> Result<ArrayRef> {
    if let Some(dictionary) = ips.as_any_dictionary_opt() {
        let values = in_block(dictionary.values(), block)?;
        return Ok(take(&values, dictionary.keys(), None)?);
    }
    let texts = text(ips)?;
    let texts: &StringArray = texts.as_string();
    Ok(Arc::new(texts.iter().map(|ip| contains(block, ip)).collect::<BooleanArray>()))
}

fn text(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(cast(array, &DataType::Utf8)?)
}

fn contains(block: Option<IpNet>, ip: Option<&str>) -> Option<bool> {
    let (block, ip) = (block?, ip?);
    let ip = ip.trim().parse::<IpAddr>();
    Some(ip.is_ok_and(|ip| block.contains(&ip.to_canonical())))
}

fn parse(block: Option<&str>) -> Result<Option<IpNet>> {
    let Some(text) = block else { return Ok(None) };
    match text.trim().parse::<IpNet>().or_else(|_| text.trim().parse::<IpAddr>().map(IpNet::from)) {
        Ok(block) => Ok(Some(block)),
        Err(_) => {
            let shown: String = text.chars().take(SHOWN).collect();
            exec_err!(
                "ip_in_cidr: {shown:?} is no block; expected such as '10.0.0.0/8', '2001:db8::/32' or one address"
            )
        }
    }
}
